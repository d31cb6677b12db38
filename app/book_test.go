package app_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

var errRollBack = errors.New("no")

// book goes through a step that is not about the broker. A command whose effect is
// unknown is sent over the broker, with the same version.
func (w *world) book(i int, s step) error {
	key := timer.Key{TenantID: timer.TenantID(name("tenant-", s.Key%2)), ServiceCallID: timer.ServiceCallID(name("call-", s.Key))}
	ctx, timers := w.t.Context(), w.app.Timers()
	if s.Do == "cancel direct" {
		version := timer.Version{TimestampMS: w.clock().Add(2 * time.Minute).UnixMilli(), CommandID: "newer"} // than the one that is made
		if err := timers.Cancel(ctx, key); err == nil || unknown(err) {
			w.cancel(timer.CancelTimer{Key: key, Version: version}) // so that the version is known, and that it is done
		}
		return nil
	}
	c := timer.ScheduleTimer{
		Key: key, Version: timer.Version{TimestampMS: firstMS + s.Age, CommandID: fmt.Sprintf("command-%02d", i)},
		DueAt: timer.RoundUp(w.clock().Add(s.Due)), CorrelationID: name("trace-", i), Data: `{"way":"direct"}`,
	}
	if s.Life > 0 {
		c.ExpiresAt = c.DueAt.Add(s.Life)
	}
	asked := client.Timer{TenantID: key.TenantID, ServiceCallID: key.ServiceCallID, DueAt: c.DueAt, ExpiresAt: c.ExpiresAt, CorrelationID: c.CorrelationID, Data: json.RawMessage(c.Data), Version: c.Version}
	var err error
	switch s.Do {
	case "direct":
		err = timers.Schedule(ctx, asked)
	case "joined":
		err = timers.Tx(ctx, func(tx *sql.Tx) error {
			switch err := timers.ScheduleTx(ctx, tx, asked); {
			case unknown(err):
				return err
			default: // what has no effect is committed, too
				return nil
			}
		})
	case "rolled back":
		err = timers.Tx(ctx, func(tx *sql.Tx) error { return errors.Join(timers.ScheduleTx(ctx, tx, asked), errRollBack) })
		if err == nil {
			return errors.New("committed what fails")
		}
		return nil // if it fires it is invented
	default:
		return nil
	}
	msg := message.NewMessage(c.CommandID, envelope.Schedule(c))
	sent := sentCommand{schedule: &c, simCommand: &simCommand{msg: msg, ackedAt: time.Now()}}
	if unknown(err) {
		sent.simCommand = w.broker.send(msg)
	}
	w.remember(sent)
	return nil
}

// unknown reports whether the effect of a call is not known.
func unknown(err error) bool {
	return err != nil && !errors.Is(err, timer.ErrStale) && !errors.Is(err, timer.ErrReached) && !errors.Is(err, timer.ErrExpired)
}
