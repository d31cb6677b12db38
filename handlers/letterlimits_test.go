package handlers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
)

// invalid returns an invalid command of a tenant, of some bytes.
func invalid(tenant string, bytes int) string {
	return fmt.Sprintf(`{"id":"c-1","tenantId":%q,"type":"X","payload":%q}`, tenant, strings.Repeat("x", bytes))
}

// A tenant sends invalid commands until nothing of a dead letter is kept. Each is acked, other
// tenants have theirs, and a day later the tenant has them again.
func TestDeadLettersOfATenantHaveALimit(t *testing.T) {
	inBubble(t, func(t *testing.T, d *harness) {
		d.ticks, d.letters = true, handlers.DeadLetterLimits{Bytes: 40_000, TotalBytes: 80_000}
		h := d.run(t, routing)
		refuse := func(tenant string, bytes int, want string) bool {
			t.Helper()
			published := len(d.dead)
			if !d.deliver(invalid(tenant, bytes)) {
				t.Fatal("not acked")
			}
			got := d.kept[len(d.kept)-1]
			if want != "" && got != want {
				t.Fatalf("of dead letter %d of %s %s was kept, want %s", len(d.kept), tenant, got, want)
			}
			if kept := len(d.dead) - published; kept == 1 != (got != handlers.KeptNothing) {
				t.Errorf("%s was kept, and %d dead letters were published", got, kept)
			} else if m := d.dead[len(d.dead)-1]; got == handlers.KeptHeaders && (len(m.Payload) > 0 || m.Metadata[envelope.HeaderDeadLetterTruncated] != "true" || m.Metadata[envelope.HeaderDeadLetterReason] == "") {
				t.Errorf("without a body it is %v, %s", m.Metadata, m.Payload)
			}
			return got == handlers.KeptNothing
		}
		for n := range 4 {
			refuse("acme", 9000, map[bool]string{true: handlers.KeptWhole, false: handlers.KeptHeaders}[n < 3])
		}
		for !refuse("acme", 9000, "") {
		}
		if n := len(d.kept); n < 10 || n > 60 {
			t.Errorf("%d dead letters until none was kept", n)
		}
		refuse("globex", 9000, handlers.KeptWhole)
		if tenant, missed := h.MissedDeadLetters(); tenant != "acme" || missed != int64(len(d.kept)-4) {
			t.Errorf("missed %d of %s", missed, tenant)
		}
		time.Sleep(24 * time.Hour)
		refuse("acme", 9000, handlers.KeptWhole)
		if tenant, missed := h.MissedDeadLetters(); missed > 0 {
			t.Errorf("a day later: missed %d of %s", missed, tenant)
		}
		for n := 0; ; n++ { // tenants without number have a limit, too
			if refuse(fmt.Sprint("tenant-", n), 9000, "") {
				break
			}
		}
		synctest.Wait()
	})
}

// A broker that needs its space for other messages takes dead letters without bodies, or none.
func TestDeadLettersThatTheBrokerHasNoSpaceFor(t *testing.T) {
	t.Parallel()
	for want, most := range map[string]int{handlers.KeptHeaders: 0, handlers.KeptNothing: -1} {
		d := newHarness()
		d.publish = func(_ context.Context, _ string, m *message.Message) error {
			if len(m.Payload) > most {
				return fmt.Errorf("%w: it is full", broker.ErrDeadLettersFull)
			}
			return nil
		}
		d.run(t, routing)
		if acked := d.deliver(invalid("acme", 10)); !acked || !slices.Equal(d.kept, []string{want}) {
			t.Errorf("acked %t, kept %v, want %s", acked, d.kept, want)
		}
	}
}
