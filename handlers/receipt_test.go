package handlers_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// TestARefusedCommandHasADeadLetterAndAReceiptBeforeItsAck has the first attempt to write one fail.
func TestARefusedCommandHasADeadLetterAndAReceiptBeforeItsAck(t *testing.T) {
	t.Parallel()
	d := newHarness()
	var mu sync.Mutex
	var got []timer.Receipt
	full := errors.New("disk full")
	d.receipts = func(_ context.Context, now time.Time, receipts ...timer.Receipt) error {
		mu.Lock()
		defer mu.Unlock()
		if len(got) == 0 && full != nil {
			full = nil
			return errors.New("disk full")
		}
		got = append(got, receipts...)
		return nil
	}
	d.run(t, routing)
	many := timer.ScheduleTimers{TenantID: "acme", Version: command.Version, Commands: []timer.ScheduleTimer{command, command}}
	many.Commands[1].ServiceCallID, many.Commands[1].DueAt = "order-2", noon.Add(48*time.Hour)
	refused := `{"id":"c-5","type":"ScheduleTimer","tenantId":"acme","aggregateId":"order-1","correlationId":"req-5"}`
	from := []string{broker.MetaTopic, "timer.commands", envelope.HeaderTraceParent, producers}
	if d.deliver(refused, from...) || len(d.dead) != 1 {
		t.Error("acked without a receipt, or a receipt written before the dead letter")
	}
	for _, body := range []string{refused, string(envelope.ScheduleMany(many)), `{"tenantId":"acme"}`, `{"tenantId":"?"}`, `not JSON`} {
		if !d.deliver(body, from...) {
			t.Errorf("%s was not acked", body)
		}
	}
	if !d.deliver(string(envelope.Schedule(command))) || !d.applied[0].(timer.ScheduleTimer).Receipt {
		t.Error("the store was not asked for the receipt of a valid command")
	}
	mu.Lock()
	defer mu.Unlock()
	for i := range got {
		if got[i].Detail == "" || got[i].Trace.Parent != producers || !got[i].At.Equal(noon) {
			t.Errorf("receipt %+v", got[i])
		}
		got[i].Detail, got[i].Trace, got[i].At = "", timer.Trace{}, time.Time{}
	}
	want := []timer.Receipt{
		{Type: timer.TimerRejected, Key: command.Key, CommandID: "c-5", CorrelationID: "req-5", Reason: timer.ReasonMissingField},
		{Type: timer.TimerRejected, Key: timer.Key{TenantID: "acme"}, CommandID: "c-1", Reason: timer.ReasonBeyondHorizon},
		{Type: timer.TimerRejected, Key: timer.Key{TenantID: "acme"}, Reason: timer.ReasonMissingField},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("receipts (-want +got):\n%s", diff)
	}
}
