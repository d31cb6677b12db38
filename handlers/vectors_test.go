package handlers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// now is the time of the service in the vectors.
var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// vectors returns those of a file of the contract.
func vectors[V any](t *testing.T, file string) (all []V) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "envelope", "schema", "vectors", file))
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil || len(all) < 10 {
		t.Fatalf("%s has %d vectors, %v", file, len(all), err)
	}
	return all
}

// ofVectors returns handlers with the defaults of the service.
func ofVectors(t *testing.T, r broker.Routing) *handlers.Handlers {
	t.Helper()
	d := newHarness()
	d.horizon = 10 * 365 * 24 * time.Hour
	return d.run(t, r)
}

func TestVectorsOfTheService(t *testing.T) {
	t.Parallel()
	one, byTenant := ofVectors(t, routing), ofVectors(t, perTenant)
	for _, v := range vectors[struct {
		Name, Of, Replace, With, Topic string
		Reason                         timer.Reason // empty if it is accepted
		Detail                         string       // a part of the detail
	}](t, "service.json") {
		body, err := os.ReadFile(filepath.Join("..", "envelope", "testdata", v.Of))
		if err != nil || !strings.Contains(string(body), v.Replace) {
			t.Fatalf("%s: %v, or it has no %s", v.Of, err, v.Replace)
		}
		h, msg := one, message.NewMessage("id", []byte(strings.Replace(string(body), v.Replace, v.With, 1)))
		if v.Topic != "" {
			h = byTenant
			msg.Metadata.Set(broker.MetaTopic, v.Topic)
		}
		schedules, cancel, err := h.Decode(t.Context(), msg, now)
		invalid, refused := errors.AsType[*timer.InvalidError](err)
		switch {
		case v.Reason == "":
			if err != nil || len(schedules) == 0 && cancel.CommandID == "" {
				t.Errorf("%s: %v, without a command", v.Name, err)
			}
		case !refused || invalid.Reason != v.Reason || !strings.Contains(invalid.Detail, v.Detail):
			t.Errorf("%s: %v, want %s: …%s…", v.Name, err, v.Reason, v.Detail)
		}
	}
}

// A vectorStore is a store that has the commands of a vector.
type vectorStore struct {
	*testing.T
	*sqlite.Store
	*handlers.Handlers
}

func newVectorStore(t *testing.T) vectorStore {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return vectorStore{t, s, ofVectors(t, routing)}
}

func (s vectorStore) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// take forgets all timers, and applies commands in this order.
func (s vectorStore) take(bodies ...string) {
	s.Helper()
	_, err := s.DB().ExecContext(s.Context(), `DELETE FROM timer_schedules`)
	s.must(err)
	for _, body := range bodies {
		schedules, selection, err := s.Decode(s.Context(), message.NewMessage("id", []byte(body)), now)
		s.must(err)
		if len(schedules) > 0 {
			_, err = s.Schedule(s.Context(), now, schedules...)
		} else {
			_, err = timer.ApplySelected(s.Context(), selection, s.List, func(ctx context.Context, step timer.SelectionStep) ([]timer.Result, error) {
				return step.Apply(ctx, now, s)
			})
		}
		s.must(err)
	}
}

// fire returns the events of the timers that are due at a time.
func (s vectorStore) fire(at time.Time) (events []timer.DueTimeReached) {
	s.Helper()
	s.must(s.Update(s.Context(), func(tx timer.Tx) error {
		entries, err := tx.Reach(s.Context(), at, 100, nil)
		for _, e := range entries {
			events = append(events, e.Event())
		}
		return err
	}))
	return events
}

// Commands may arrive in any order.
func TestVectorsOfOrder(t *testing.T) {
	t.Parallel()
	s := newVectorStore(t)
	for _, v := range vectors[struct {
		Name     string
		Commands []string
		Wins     string    // id of a command
		FiredAt  time.Time // default when it is due
		Event    string    // empty if there is none
	}](t, "order.json") {
		arrivals(v.Commands, func(bodies []string) {
			s.take(bodies...)
			e, err := s.Get(t.Context(), timer.Key{TenantID: "acme", ServiceCallID: "order:42.pay"})
			s.must(err)
			at := v.FiredAt
			if at.IsZero() {
				at = e.DueAt
			}
			got := ""
			for _, event := range s.fire(at) {
				got += string(envelope.Reached(event))
			}
			if e.CommandID != v.Wins || got != v.Event {
				t.Errorf("%s: %s wins, its event is\n%s\nwant %s and\n%s", v.Name, e.CommandID, got, v.Wins, v.Event)
			}
		})
	}
}

// arrivals calls yield with each order of commands.
func arrivals(commands []string, yield func([]string), before ...string) {
	if len(commands) == 0 {
		yield(before)
	}
	for i, c := range commands {
		arrivals(slices.Concat(commands[:i], commands[i+1:]), yield, append(slices.Clone(before), c)...)
	}
}

func TestVectorsOfSelections(t *testing.T) {
	t.Parallel()
	s, movedTo := newVectorStore(t), time.Date(2030, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, v := range vectors[struct {
		Name            string
		Timers          []struct{ TenantID, ServiceCallID, CorrelationID, TimestampMS, ExpiresAt json.RawMessage }
		Payload         map[string]any // of a CancelTimers or, with a dueAt, of a RescheduleTimers, a millisecond later
		Selected, Moved []timer.ServiceCallID
	}](t, "selections.json") {
		or := func(v json.RawMessage, value string) string {
			if v == nil {
				return value
			}
			return string(v)
		}
		var bodies []string
		for _, c := range v.Timers {
			tenant := or(c.TenantID, `"acme"`)
			bodies = append(bodies, fmt.Sprintf(`{"id":"a","type":"ScheduleTimer","tenantId":%s,"timestampMs":%s,"correlationId":%s,"payload":{"tenantId":%[1]s,"serviceCallId":%[4]s,"dueAt":"2030-02-01T00:00:00Z","expiresAt":%s}}`,
				tenant, or(c.TimestampMS, "1893456000000"), or(c.CorrelationID, "null"), c.ServiceCallID, or(c.ExpiresAt, "null")))
		}
		if v.Moved == nil {
			v.Moved = v.Selected
		}
		for _, c := range []struct {
			name    string
			changed []timer.ServiceCallID
			state   timer.State
			fire    int
		}{
			{envelope.TypeCancelTimers, v.Selected, timer.Canceled, len(v.Timers) - len(v.Selected)},
			{envelope.TypeRescheduleTimers, v.Moved, timer.Scheduled, len(v.Timers)},
		} {
			payload, err := json.Marshal(v.Payload)
			s.must(err)
			s.take(append(bodies, fmt.Sprintf(`{"id":"b","type":%q,"tenantId":"acme","timestampMs":1893456000001,"payload":%s}`, c.name, payload))...)
			page, err := s.List(t.Context(), timer.Filter{TenantID: "acme", Limit: 100})
			s.must(err)
			changed := []timer.ServiceCallID{}
			for _, e := range page.Entries {
				if e.CommandID == "b" && e.State == c.state && !e.DueAt.IsZero() && (c.state == timer.Canceled || e.DueAt.Equal(movedTo)) { // no tombstone
					changed = append(changed, e.ServiceCallID)
				}
			}
			slices.Sort(changed)
			if diff := cmp.Diff(c.changed, changed); diff != "" {
				t.Errorf("%s, of a %s (-want +got):\n%s", v.Name, c.name, diff)
			}
			if fired := len(s.fire(now.AddDate(1, 0, 0))); fired != c.fire {
				t.Errorf("%s: %d timers fire after a %s", v.Name, fired, c.name)
			}
			v.Payload["dueAt"] = movedTo
		}
	}
}
