package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// newID returns an identifier as producers make them.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// tenant returns whose the timer with a number is.
func (o Options) tenant(n int) timer.TenantID {
	return timer.TenantID(fmt.Sprintf("tenant-%d", n%o.Tenants))
}

// command makes a command for a new timer.
func command(tenant timer.TenantID, now, due time.Time) timer.ScheduleTimer {
	return timer.ScheduleTimer{
		Key:           timer.Key{TenantID: tenant, ServiceCallID: timer.ServiceCallID(newID())},
		Version:       timer.Version{TimestampMS: now.UnixMilli(), CommandID: newID()},
		CorrelationID: newID(),
		DueAt:         due,
	}
}

func encode(c timer.ScheduleTimer) *message.Message {
	m := message.NewMessage(c.CommandID, envelope.Schedule(c))
	m.Metadata = envelope.CommandHeaders(c)
	return m
}

// encodeAll returns the messages of commands: one each, or with Bulk one for each
// 500 of a tenant, whose version and correlation id the commands then have.
func (o Options) encodeAll(commands []timer.ScheduleTimer) (messages []*message.Message) {
	if !o.Bulk {
		for _, c := range commands {
			messages = append(messages, encode(c))
		}
		return messages
	}
	ofTenant := make(map[timer.TenantID][]int)
	for n, c := range commands {
		ofTenant[c.TenantID] = append(ofTenant[c.TenantID], n)
	}
	for _, numbers := range ofTenant {
		for some := range slices.Chunk(numbers, timer.MaxScheduleTimers) {
			first := commands[some[0]]
			many := timer.ScheduleTimers{TenantID: first.TenantID, Version: first.Version}
			for _, n := range some {
				commands[n].Version, commands[n].CorrelationID = first.Version, first.CorrelationID
				many.Commands = append(many.Commands, commands[n])
			}
			m := message.NewMessage(first.CommandID, envelope.ScheduleMany(many))
			m.Metadata = envelope.CommandHeaders(many)
			messages = append(messages, m)
		}
	}
	return messages
}

const (
	publishers   = 8       // that publish a batch at the same time
	publishBatch = 500     // messages
	publishBytes = 1 << 20 // of a batch, about
)

// publish publishes commands as fast as the broker takes them.
func (s *system) publish(ctx context.Context, commands []*message.Message) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(publishers)
	topic := s.client.Routing().Subscription()
	for len(commands) > 0 && ctx.Err() == nil {
		n := min(max(1, publishBytes/len(commands[0].Payload)), publishBatch, len(commands))
		batch := commands[:n]
		all.Go(func() error { return broker.NewWatermillPublisher(s.client.Publisher()).Publish(topic, batch...) })
		commands = commands[n:]
	}
	return all.Wait()
}

const (
	fillFrom = 24 * time.Hour      // from now until the first of the pending timers is due
	fillOver = 30 * 24 * time.Hour // in which they are due
)

// pending are the timers that wait meanwhile.
func (o Options) pending() load {
	return load{timers: o.Pending, tenant: o.tenant, from: time.Now().Add(fillFrom), over: fillOver}
}
