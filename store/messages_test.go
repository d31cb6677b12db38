package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// waiting are messages of an inbox, of which the last one does not wait.
func waiting() []timer.InboxMessage {
	return []timer.InboxMessage{
		{
			TenantID: "acme", Log: "commands@1", Number: 7, Topic: "svc.commands", Position: "7", MessageID: "0196-full", Headers: map[string]string{"tenantId": "acme", "a": "é<"},
			Body: []byte("{\"id\":\x00\xff"), ArrivedAt: noon, Reason: timer.WaitFailed, RetryAt: noon.Add(time.Hour), Attempts: 3, LastError: "no answer",
		},
		{TenantID: timer.NoTenant, Topic: "svc.commands", MessageID: "0196-bare", ArrivedAt: noon.Add(time.Millisecond), Reason: timer.WaitQuota, RetryAt: noon.Add(time.Hour)},
		{TenantID: "acme", Log: "commands@1", Number: 8, Topic: "svc.commands", MessageID: "0196-applied", ArrivedAt: noon, Reason: timer.WaitApplied},
	}
}

// withMessages returns a store with a timer and messages.
func withMessages(t *testing.T) *sqlite.Store {
	t.Helper()
	s := open(t, sqlite.Options{})
	_, err := importFile(t.Context(), s, strings.NewReader(export(t, samples()[:1])), noon, nil)
	must(t, err)
	must(t, s.Inbox().PutInbox(t.Context(), waiting()...))
	return s
}

// TestExportHasWhatWaits holds the format against a file, and imports it into both databases.
func TestExportHasWhatWaits(t *testing.T) {
	t.Parallel()
	path := filepath.Join("testdata", "messages.jsonl")
	got := exportOf(t, withMessages(t))
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("export (-want +got):\n%s", diff)
	}
	if signed(got) != got {
		t.Error("the checksum is not that of the lines between the first and the last")
	}
	there, err := postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{})
	must(t, err)
	t.Cleanup(func() { _ = there.Close() })
	imported := noon.Add(2 * time.Hour)
	for _, to := range []movable{there, open(t, sqlite.Options{})} {
		sum, err := importFile(t.Context(), to, strings.NewReader(got), imported, nil)
		must(t, err)
		if want := "1 timers (0 Scheduled, 1 Reached, 0 Expired, 0 Canceled) and 2 messages that wait"; sum.String() != want {
			t.Errorf("%T: summary is %s, want %s", to, sum, want)
		}
		if diff := cmp.Diff(got, exportOf(t, to)); diff != "" {
			t.Errorf("%T: exported again (-imported +exported):\n%s", to, diff)
		}
		until := imported.Add(time.Minute)
		messages, err := to.Inbox().TakeInbox(t.Context(), imported, until, 10, 10, nil)
		must(t, err)
		left := waiting()[:2]
		for i := range left { // without their place in the log of another broker
			left[i].Log, left[i].Number, left[i].RetryAt = "", 0, until
		}
		for i := range messages {
			messages[i].Seq = 0
		}
		if diff := cmp.Diff(left, messages, cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) }), cmp.Comparer(sameHeaders)); diff != "" {
			t.Errorf("%T: messages (-want +got):\n%s", to, diff)
		}
	}
}

func sameHeaders(a, b map[string]string) bool {
	return len(a) == 0 && len(b) == 0 || cmp.Equal(a, b)
}

// TestImportRefusesMessages spoils the messages of an export. Nothing of it is kept, and the
// error names the line.
func TestImportRefusesMessages(t *testing.T) {
	t.Parallel()
	file := exportOf(t, withMessages(t))
	lines := strings.SplitAfter(file, "\n")
	replace := func(old, new string) string {
		if !strings.Contains(file, old) {
			t.Fatalf("the export does not hold %s", old)
		}
		return signed(strings.Replace(file, old, new, 1))
	}
	to := open(t, sqlite.Options{})
	for _, tt := range []struct{ name, file, want string }{
		{"a reason that does not wait", replace(`"reason":"failed"`, `"reason":"applied"`), `line 3: reason is "applied", want over_quota or failed`},
		{"no tenant", replace(`"kind":"message","tenantId":"acme"`, `"kind":"message","tenantId":""`), "line 3: tenantId is empty"},
		{"no arrival", replace(`"arrivedAt":"2030-05-17T12:00:00.000Z",`, ""), "line 3: arrivedAt is missing"},
		{"attempts below none", replace(`"attempts":3`, `"attempts":-3`), "line 3: attempts is negative"},
		{"a body that is no base64", replace(`"body":"`, `"body":"?`), "line 3: "},
		{"an unknown field", replace(`"attempts":3`, `"attempts":3,"number":7`), `line 3: the field "number" is not known`},
		{"a message is missing and signed", signed(strings.Replace(file, lines[2], "", 1)), "line 4: the counts are"},
		{"a timer behind a message", signed(lines[0] + lines[2] + lines[1] + strings.Join(lines[3:], "")), "line 3: a timer comes after a message"},
	} {
		if _, err := importFile(t.Context(), to, strings.NewReader(tt.file), noon, nil); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: got %v\nwant %s", tt.name, err, tt.want)
		}
	}
	if kept, err := to.Waiting(t.Context(), 0, 10); err != nil || len(kept) > 0 {
		t.Errorf("%v were kept, %v", kept, err)
	}
}

// TestImportNeedsAnEmptyInbox has a store without timers where a message waits.
func TestImportNeedsAnEmptyInbox(t *testing.T) {
	t.Parallel()
	to := open(t, sqlite.Options{})
	must(t, to.Inbox().PutInbox(t.Context(), waiting()[1]))
	if _, err := importFile(t.Context(), to, strings.NewReader(export(t, samples())), noon, nil); !errors.Is(err, store.ErrNotEmpty) {
		t.Errorf("import: %v, want %v", err, store.ErrNotEmpty)
	}
}

// TestManyMessagesAreMoved has more than a page, and one that is larger than most brokers take.
func TestManyMessagesAreMoved(t *testing.T) {
	t.Parallel()
	from, to := open(t, sqlite.Options{}), open(t, sqlite.Options{})
	put := func(messages ...timer.InboxMessage) {
		for i := range messages {
			messages[i].Log, messages[i].Number = "", 0 // those of one place are one
		}
		must(t, from.Inbox().PutInbox(t.Context(), messages...))
	}
	for range 10 {
		put(waiting()...)
		put(bytesOf(1<<20), waiting()[2])
	}
	for range 60 {
		put(waiting()...)
	}
	put(bytesOf(8 << 20))
	file := exportOf(t, from)
	sum, err := importFile(t.Context(), to, strings.NewReader(file), noon, nil)
	if err != nil || sum.Messages != 151 {
		t.Errorf("imported %s, %v", sum, err)
	}
}

// bytesOf returns a message with a body of n bytes.
func bytesOf(n int) timer.InboxMessage {
	m := waiting()[0]
	m.Body = bytes.Repeat([]byte("x"), n)
	return m
}
