package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// Referenced tests a store on a database with the foreign key to service_calls.
// Open returns an empty one in which only the given service calls of the tenant
// acme exist, and has it closed when the test ends.
func Referenced(t *testing.T, open func(tb testing.TB, calls []timer.ServiceCallID) Store) {
	for _, c := range referencedCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &suite{T: t, store: open(t, existing(1000))}
			c.test(s)
			s.countsAreRight()
		})
	}
}

var referencedCases = []struct {
	name string
	test func(*suite)
}{
	{"A command without a service call is refused, and changes nothing for 999 others", refuseOne},
	{"Commands of one message are refused together, by the name of the first", refuseMessage},
	{"A command that is refused has no receipt, the others have theirs", refuseReceipt},
	{"A cancellation without a service call has nothing to take back", cancelNothing},
	{"Events that were published without a service call leave no timer, and the others theirs", firedReferenced},
}

// refuseByRule applies commands that no validation has seen, of keys that are new, come twice
// or are known.
func refuseByRule(s *suite) {
	tooLong := func(call timer.ServiceCallID) timer.ScheduleTimer {
		c := schedule(key("acme", call), 5, noon)
		c.CommandID = strings.Repeat("x", 129)
		return c
	}
	refused := func(what string, r timer.Result, call timer.ServiceCallID) {
		s.Helper()
		invalid, ok := errors.AsType[*timer.InvalidError](r.Err)
		if !ok || invalid.Reason != timer.ReasonRefused || !strings.Contains(invalid.Detail, "command_id_has_1_to_128_characters") || !strings.Contains(invalid.Detail, "acme."+string(call)) {
			s.Errorf("%s: %+v, want %s refused by the name of the rule", what, r, call)
		}
	}
	results, err := s.store.Schedule(s.Context(), noon, schedule(key("acme", "a"), 1, noon), tooLong("b"), schedule(key("acme", "c"), 1, noon), tooLong("a"))
	s.must(err)
	refused("new", results[1], "b")
	refused("twice", results[3], "a")
	results, err = s.store.Schedule(s.Context(), noon, tooLong("c"), schedule(key("acme", "d"), 1, noon))
	s.must(err)
	refused("known", results[0], "c")
	results, err = s.store.Cancel(s.Context(), noon, timer.CancelTimer{Key: key("acme", "b"), Version: tooLong("b").Version}, cancel(key("acme", "d"), 2))
	s.must(err)
	refused("canceled", results[0], "b")
	s.same("counts", s.stats().Counts, timer.Counts{Scheduled: 2, Canceled: 1})
}

// existing returns the service calls that exist: call-000000 and so on.
func existing(n int) []timer.ServiceCallID {
	calls := make([]timer.ServiceCallID, n)
	for i := range calls {
		calls[i] = timer.ServiceCallID(fmt.Sprintf("call-%06d", i))
	}
	return calls
}

// single returns a command that came in a message of its own.
func single(call timer.ServiceCallID) timer.ScheduleTimer {
	c := schedule(key("acme", call), 1, noon.Add(time.Hour))
	c.CommandID = "of-" + string(call)
	return c
}

// oneMessage returns commands that came in one message.
func oneMessage(id string, calls ...timer.ServiceCallID) []timer.ScheduleTimer {
	commands := make([]timer.ScheduleTimer, len(calls))
	for i, call := range calls {
		commands[i] = single(call)
		commands[i].CommandID = id
	}
	return commands
}

// apply schedules commands. The ones whose index is in refused must be refused by
// the name of the key there, the others must be new.
func (s *suite) apply(commands []timer.ScheduleTimer, refused map[int]timer.ServiceCallID) {
	s.Helper()
	results, err := s.store.Schedule(s.Context(), noon, commands...)
	s.must(err)
	for i, got := range results {
		call, bad := refused[i]
		if !bad {
			s.same(fmt.Sprint("result ", i), got, timer.Result{Outcome: timer.DidSchedule})
			continue
		}
		invalid, ok := errors.AsType[*timer.InvalidError](got.Err)
		if !ok || invalid.Reason != timer.ReasonRefused || !strings.Contains(invalid.Detail, "acme."+string(call)+":") || got.Outcome != 0 {
			s.Errorf("result %d: %+v, want it refused by the name of %s", i, got, call)
		}
	}
}

func refuseOne(s *suite) {
	var commands []timer.ScheduleTimer
	for _, call := range existing(1000) {
		commands = append(commands, single(call))
	}
	commands[300] = single("none")
	s.apply(commands, map[int]timer.ServiceCallID{300: "none"})
	s.same("timers", s.stats().Scheduled, int64(999))
	_, err := s.store.Get(s.Context(), key("acme", "none"))
	if !errors.Is(err, timer.ErrNotFound) {
		s.Errorf("what was refused: %v, want ErrNotFound", err)
	}
}

func refuseMessage(s *suite) {
	calls := existing(200)
	commands := []timer.ScheduleTimer{single(calls[0]), single("none-0")}
	commands = append(commands, oneMessage("good", calls[1:100]...)...)
	mixed := append(calls[100:180:180], "none-2", calls[180], "none-1", calls[181]) // in another order than that of the keys
	commands = append(commands, oneMessage("bad", mixed...)...)
	commands = append(commands, single(calls[150]), single(calls[190])) // the first has the key of one that is refused
	refused := map[int]timer.ServiceCallID{1: "none-0"}
	for i := range mixed {
		refused[101+i] = "none-2"
	}
	s.apply(commands, refused)
	s.same("timers", s.stats().Scheduled, int64(1+99+2))
	s.same("of the message behind", s.get(key("acme", calls[150])).CommandID, "of-call-000150")
	_, err := s.store.Get(s.Context(), key("acme", calls[120]))
	if !errors.Is(err, timer.ErrNotFound) {
		s.Errorf("a command in one message with one that is refused: %v, want ErrNotFound", err)
	}
	for i := range mixed { // alone as well
		refused[i] = "none-2"
	}
	s.apply(oneMessage("bad", mixed...), refused)
}

func cancelNothing(s *suite) {
	s.apply([]timer.ScheduleTimer{single("call-000001")}, nil)
	k, none := key("acme", "call-000001"), key("acme", "none")
	s.same("canceled", s.cancel(cancel(none, 2), cancel(k, 2), cancel(none, 3), cancel(key("acme", "call-000002"), 2)),
		[]timer.Outcome{timer.WasCanceled, timer.DidCancel, timer.WasCanceled, timer.DidCancel})
	_, err := s.store.Get(s.Context(), none)
	if !errors.Is(err, timer.ErrNotFound) {
		s.Errorf("a cancellation of nothing left %v", err)
	}
}

// receipts returns the answers of the receipts in the outbox, and removes them.
func (s *suite) receipts() (answers []string) {
	s.Helper()
	for _, row := range s.head(0, 10_000) {
		m, err := envelope.Decode(row.Message.Payload)
		s.must(err)
		r, ok := m.Payload.(timer.Receipt)
		s.same("a receipt", ok, true)
		s.same("id", row.Message.UUID, envelope.ReceiptID(r))
		s.same("headers", map[string]string(row.Message.Metadata), envelope.Format{}.HeadersOfReceipt(r))
		answers = append(answers, string(r.ServiceCallID)+" "+r.CommandID+" "+string(r.Type)+" "+string(r.Reason))
		s.must(s.store.Delete(s.Context(), row.Place))
	}
	return answers
}

// wanting returns a command with a receipt.
func wanting(call timer.ServiceCallID, version int64, due time.Time) timer.ScheduleTimer {
	c := schedule(key("acme", call), version, due)
	c.Receipt = true
	return c
}

func outboxReceipts(s *suite) {
	without := schedule(key("acme", "d"), 2, noon)
	s.schedule(wanting("a", 2, noon), wanting("b", 2, noon.Add(time.Hour)), without)
	s.same("new timers", s.receipts(), []string{"a command-2 TimerScheduled ", "b command-2 TimerScheduled "})
	c := cancel(key("acme", "b"), 4)
	c.Receipt = true
	s.schedule(wanting("b", 1, noon), wanting("b", 2, noon), wanting("b", 3, noon))
	s.cancel(c, c, cancel(key("acme", "c"), 1))
	s.same("timers that exist", s.receipts(), []string{"b command-1 TimerIgnored stale", "b command-3 TimerScheduled ", "b command-4 TimerCanceled "})
	s.same("fired", len(s.fire(noon, 10)), 2)
	for _, row := range s.head(0, 10) {
		s.must(s.store.Delete(s.Context(), row.Place))
	}
	late := cancel(key("acme", "a"), 9)
	late.Receipt = true
	s.schedule(wanting("a", 8, noon), wanting("a", 2, noon))
	s.cancel(late)
	s.same("timers that have fired", s.receipts(), []string{"a command-8 TimerIgnored reached", "a command-9 TimerIgnored reached"})

	failed := errors.New("after the receipt")
	s.same("error", errors.Is(s.store.Update(s.Context(), func(tx timer.Tx) error {
		s.must(tx.EmitReceipts(s.Context()))
		s.must(tx.EmitReceipts(s.Context(), timer.Receipt{Type: timer.TimerRejected, Key: key("acme", ""), Reason: timer.ReasonNotJSON, Detail: "x", At: noon}))
		return failed
	}), failed), true)
	s.same("rolled back", len(s.receipts()), 0)
	s.same("outbox", s.stats().Outbox, int64(0))
}

func refuseReceipt(s *suite) {
	commands := []timer.ScheduleTimer{single("call-000000"), single("none"), single("call-000001")}
	for i := range commands {
		commands[i].Receipt = true
	}
	s.apply(commands, map[int]timer.ServiceCallID{1: "none"})
	s.same("receipts", s.receipts(), []string{"call-000000 of-call-000000 TimerScheduled ", "call-000001 of-call-000001 TimerScheduled "})
}
