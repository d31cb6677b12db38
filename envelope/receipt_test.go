package envelope_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// goldenReceipts are what became of the commands of the other golden files.
func goldenReceipts() map[string]timer.Receipt {
	receipt := func(kind timer.ReceiptType, reason timer.Reason) timer.Receipt {
		return timer.Receipt{
			Type: kind, Key: goldenKey, CommandID: goldenSchedule.CommandID, CorrelationID: goldenSchedule.CorrelationID,
			Reason: reason, At: goldenDueAt.Add(-1), Trace: goldenTrace,
		}
	}
	scheduled, rejected := receipt(timer.TimerScheduled, ""), receipt(timer.TimerRejected, timer.ReasonBadTime)
	scheduled.DueAt = goldenDueAt
	rejected.Detail = `payload.dueAt "tomorrow" is not a time; write it like 2030-01-31T11:30:00Z`
	return map[string]timer.Receipt{
		"timer_scheduled.json": scheduled, "timer_canceled.json": receipt(timer.TimerCanceled, ""),
		"timer_ignored.json": receipt(timer.TimerIgnored, timer.IgnoredStale), "timer_rejected.json": rejected,
	}
}

func TestReceiptsAreLikeGoldenFilesAndDecode(t *testing.T) {
	t.Parallel()
	for name, r := range goldenReceipts() {
		for prefix, format := range map[string]envelope.Format{"": {}, "cloudevent_": {CloudEvents: true}} {
			body := format.Receipt(r)
			if want := string(golden(t, prefix+name)); string(body) != want {
				t.Errorf("%s:\n got %s\nwant %s", prefix+name, body, want)
			}
			m, err := envelope.Decode(body)
			if err != nil {
				t.Errorf("%s: %v", prefix+name, err)
				continue
			}
			want := r
			want.ID, want.At = envelope.ReceiptID(r), timer.RoundDown(r.At)
			if !format.CloudEvents {
				want.Trace = timer.Trace{}
			}
			if diff := cmp.Diff(any(want), m.Payload); diff != "" || m.CausationID != r.CommandID || m.AggregateID != string(r.ServiceCallID) {
				t.Errorf("%s (-want +got):\n%s", prefix+name, diff)
			}
		}
	}
}

// TestOneIDHasOneAnswer has receipts that differ in one part each.
func TestOneIDHasOneAnswer(t *testing.T) {
	t.Parallel()
	seen := make(map[string]timer.Receipt)
	differ := func(r timer.Receipt) {
		id := envelope.ReceiptID(r)
		if other, twice := seen[id]; twice {
			t.Errorf("%+v and %+v have the id %s", r, other, id)
		}
		seen[id] = r
		if _, isEvent := envelope.DueAt(id); isEvent {
			t.Errorf("%s can be taken for the id of an event", id)
		}
		later := r
		later.At, later.Trace = r.At.Add(1e9), timer.Trace{}
		if envelope.ReceiptID(later) != id {
			t.Error("the same answer has another id at its next delivery")
		}
	}
	for _, r := range goldenReceipts() {
		differ(r)
		other := r
		other.ServiceCallID += "x"
		differ(other)
		other = r
		other.CommandID += "x"
		differ(other)
		other = r
		other.CorrelationID += "x"
		differ(other)
		other.TenantID += "x"
		differ(other)
		if r.Reason != "" {
			other = r
			other.Reason = timer.IgnoredReached
			differ(other)
		}
	}
}

// TestAReceiptMayNameNoServiceCall has one of a command that named none.
func TestAReceiptMayNameNoServiceCall(t *testing.T) {
	t.Parallel()
	r := goldenReceipts()["timer_rejected.json"]
	r.ServiceCallID, r.CommandID, r.CorrelationID = "", "", ""
	for _, format := range []envelope.Format{{}, {CloudEvents: true}} {
		m, err := envelope.Decode(format.Receipt(r))
		if got, ok := m.Payload.(timer.Receipt); err != nil || !ok || got.Key != r.Key || got.CommandID != "" {
			t.Errorf("%v, %+v", err, m)
		}
		if r := format.HeadersOfReceipt(r); r[envelope.HeaderTenantID] != "acme" || r[envelope.HeaderType] != "TimerRejected" {
			t.Errorf("headers %v", r)
		}
	}
}
