package storetest

import (
	"errors"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// receipts returns what the receipts in the outbox say, and removes them.
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
