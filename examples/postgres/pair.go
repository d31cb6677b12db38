package main

import (
	"context"
	"database/sql"
	"time"

	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	wm "github.com/event-service-agent/timer-service/broker/watermill"
)

// A pair is what an application with Watermill has: a publisher, and a subscriber for
// each of its parts, on PostgreSQL.
type pair struct {
	db        *sql.DB
	schema    wmsql.SchemaAdapter
	publisher message.Publisher
}

func newPair(db *sql.DB) (pair, error) {
	schema := wmsql.DefaultPostgreSQLSchema{GeneratePayloadType: func(string) string { return "BYTEA" }} // JSON would rewrite bodies
	publisher, err := wmsql.NewPublisher(db, wmsql.PublisherConfig{SchemaAdapter: schema, AutoInitializeSchema: true}, nil)
	return pair{db, schema, publisher}, err
}

// subscriber returns one of a consumer group.
func (p pair) subscriber(group string) (message.Subscriber, error) {
	return wmsql.NewSubscriber(p.db, wmsql.SubscriberConfig{
		ConsumerGroup: group, SchemaAdapter: p.schema, OffsetsAdapter: wmsql.DefaultPostgreSQLOffsetsAdapter{},
		InitializeSchema: true, PollInterval: 20 * time.Millisecond, ResendInterval: time.Second,
	}, nil)
}

// options says how the timers use the pair: docs/brokers/README.md has the reasons.
func (p pair) options() wm.Options {
	return wm.Options{
		Batch: 1000, // one call is one INSERT, which works for all messages or for none
		Calls: 1,    // one at a time: of two, subscribers may see the later one first
		Ready: func(ctx context.Context) error { return p.db.PingContext(ctx) },
	}
}
