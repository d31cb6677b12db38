package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

const createServiceCalls = `
CREATE TABLE IF NOT EXISTS service_calls (
	tenant_id       TEXT NOT NULL,
	service_call_id TEXT NOT NULL,
	state           TEXT NOT NULL DEFAULT 'Booked' CHECK (state IN ('Booked', 'Running')),
	PRIMARY KEY (tenant_id, service_call_id)
) STRICT`

// An Orchestration owns the service calls. It asks for a timer when one is
// booked, and starts it when the timer is reached.
type Orchestration struct {
	db      *sql.DB
	broker  broker.Broker
	log     *slog.Logger
	execute func(call string)

	once       sync.Once
	subscribed chan struct{}
}

// Subscribed is closed when events are being taken.
func (o *Orchestration) Subscribed() chan struct{} {
	o.once.Do(func() { o.subscribed = make(chan struct{}) })
	return o.subscribed
}

// Book stores a service call and asks to be called back when it is due. These are
// two writes: a process that dies between them leaves a service call that nothing
// starts. An application that cannot bear that keeps an outbox of its own for the
// command, in the transaction of the first write.
func (o *Orchestration) Book(ctx context.Context, tenant timer.TenantID, call timer.ServiceCallID, due time.Time) error {
	if _, err := o.db.ExecContext(ctx,
		`INSERT INTO service_calls (tenant_id, service_call_id) VALUES (?, ?)`, string(tenant), string(call)); err != nil {
		return err
	}
	id := uuid.Must(uuid.NewV7()).String()
	body := envelope.Schedule(timer.ScheduleTimer{
		Key:     timer.Key{TenantID: tenant, ServiceCallID: call},
		Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: id},
		DueAt:   due,
	})
	return o.broker.Publisher().Publish(ctx, broker.Message{
		Topic:   o.broker.Routing().CommandsOf(tenant),
		Message: message.NewMessage(id, body),
	})[0]
}

// Cancel forgets a service call. Its timer goes with it, by the foreign key.
func (o *Orchestration) Cancel(ctx context.Context, tenant timer.TenantID, call timer.ServiceCallID) error {
	_, err := o.db.ExecContext(ctx,
		`DELETE FROM service_calls WHERE tenant_id = ? AND service_call_id = ?`, string(tenant), string(call))
	return err
}

// Run reacts to events until ctx is done.
func (o *Orchestration) Run(ctx context.Context) error {
	events, err := o.broker.Subscriber("orchestration").Subscribe(ctx, o.broker.Routing().EventsOf("*"))
	if err != nil {
		return err
	}
	close(o.Subscribed())
	for msg := range events {
		if err := o.react(ctx, msg); err != nil {
			o.log.WarnContext(ctx, "event will come again", "error", err)
			msg.Nack()
			continue
		}
		msg.Ack()
	}
	if ctx.Err() == nil {
		return errors.New("the subscription ended by itself")
	}
	return nil
}

// react starts the service call whose timer was reached. The same event may
// come twice, so only the one that changes the state starts it.
func (o *Orchestration) react(ctx context.Context, msg *message.Message) error {
	m, err := envelope.Decode(msg.Payload)
	if err != nil {
		return fmt.Errorf("decode event %s: %w", msg.UUID, err)
	}
	reached, ok := m.Payload.(timer.DueTimeReached)
	if !ok {
		return nil
	}
	changed, err := o.db.ExecContext(ctx, `
		UPDATE service_calls
		   SET state = 'Running'
		 WHERE tenant_id = ? AND service_call_id = ? AND state = 'Booked'`,
		string(reached.TenantID), string(reached.ServiceCallID))
	if err != nil {
		return err
	}
	if n, err := changed.RowsAffected(); err != nil || n == 0 {
		return err
	}
	o.execute(reached.String())
	return nil
}
