package watermill_test

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/watermill"
	"github.com/event-service-agent/timer-service/internal/pgtest"
)

var sqlFeatures = brokertest.Features{Durable: true, Replays: true, Lacks: lacks(map[string]string{
	"A tail sees what comes later, and acks mean nothing to it":           "a consumer group begins with the oldest message",
	"No message waits for another one, whatever its key":                  oneInFlight,
	"The context of a message carries values and ends with its ack":       oneInFlight,
	"Canceling Subscribe ends the intake; what is in flight can be acked": oneInFlight,
	"Messages that wait for their retry hold back no other":               oneInFlight,
	"A role goes on after what it acked":                                  "acks are kept for a hundred messages at a time",
	"Close with messages in flight loses none":                            oneInFlight,
})}

const oneInFlight = "a subscription has one message in flight"

func TestSQL(t *testing.T) { brokertest.Run(t, sqlFeatures, openSQL) }

// An impatientSchema reads all committed rows. The one of watermill-sql reads only
// rows that are older than each open transaction of the server, whatever its database: next to
// the tests of other packages a message may wait for minutes.
type impatientSchema struct{ wmsql.DefaultPostgreSQLSchema }

// SelectQuery leaves out the condition.
func (s impatientSchema) SelectQuery(topic, group string, offsets wmsql.OffsetsAdapter) wmsql.Query {
	const condition = "transaction_id < pg_snapshot_xmin(pg_current_snapshot())"
	q := s.DefaultPostgreSQLSchema.SelectQuery(topic, group, offsets)
	if !strings.Contains(q.Query, condition) {
		panic("watermill-sql reads in another way now")
	}
	q.Query = strings.Replace(q.Query, condition, "true", 1)
	return q
}

// openSQL makes brokers of watermill-sql in a schema of PostgreSQL.
func openSQL(t testing.TB) brokertest.Server {
	db, err := stdsql.Open("pgx", pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(20)
	t.Cleanup(func() { _ = db.Close() })
	schema := impatientSchema{wmsql.DefaultPostgreSQLSchema{GeneratePayloadType: func(string) string { return "BYTEA" }}} // JSON refuses and rewrites bodies
	pub, err := wmsql.NewPublisher(db, wmsql.PublisherConfig{SchemaAdapter: schema, AutoInitializeSchema: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return brokertest.Server{Broker: func() broker.Broker {
		return watermill.New(pub, func(role string) (message.Subscriber, error) {
			return wmsql.NewSubscriber(db, wmsql.SubscriberConfig{
				ConsumerGroup: role, SchemaAdapter: schema, OffsetsAdapter: wmsql.DefaultPostgreSQLOffsetsAdapter{},
				InitializeSchema: true, PollInterval: 20 * time.Millisecond, ResendInterval: time.Millisecond,
			}, nil)
		}, watermill.Options{
			Batch: 1000, // a call is one INSERT
			Calls: 1,    // one INSERT at a time, so that they commit in the order of their ids
			Ready: func(ctx context.Context) error { return db.PingContext(ctx) },
			Classify: func(err error) error {
				refused, ok := errors.AsType[*pgconn.PgError](err)
				if errors.Is(err, wmsql.ErrInvalidTopicName) || ok && strings.HasPrefix(refused.Code, "22") { // such as an id of more than 36 bytes
					return fmt.Errorf("%w: %w", broker.ErrRefused, err)
				}
				return err
			},
		}, quiet)
	}}
}
