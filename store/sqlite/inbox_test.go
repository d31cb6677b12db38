package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// TestAnIdleInboxWritesNothing asks an inbox with nothing that is due, and with a selection
// that must stay, while another transaction has the database.
func TestAnIdleInboxWritesNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := Open(ctx, filepath.Join(t.TempDir(), "timers.db"), Options{Durability: Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	noon := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
	if err := s.inbox.PutInbox(ctx,
		timer.InboxMessage{TenantID: "acme", ArrivedAt: noon, Reason: timer.WaitFailed, RetryAt: noon.Add(time.Second)},
		timer.InboxMessage{TenantID: "acme", ArrivedAt: noon, Reason: timer.WaitApplied}); err != nil {
		t.Fatal(err)
	}
	<-s.turn // no transaction that writes can begin
	defer func() { s.turn <- struct{}{} }()
	for what, ask := range map[string]func() error{
		"take":  func() error { _, err := s.inbox.TakeInbox(ctx, noon, noon.Add(time.Minute), 10, 10, nil); return err },
		"next":  func() error { _, err := s.inbox.NextInbox(ctx); return err },
		"count": func() error { _, err := s.inbox.InboxCounts(ctx, ""); return err },
		"purge": func() error { _, err := s.inbox.PurgeApplied(ctx, noon, 10); return err },
	} {
		if err := ask(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
