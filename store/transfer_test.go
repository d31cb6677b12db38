package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

var update = flag.Bool("update", false, "write the golden file")

var noon = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

var exportedAt = noon.Add(time.Hour)

// samples are timers of all states, with and without all that is optional.
func samples() []timer.Entry {
	return []timer.Entry{
		{
			Key: timer.Key{TenantID: "ACME", ServiceCallID: "a:1.b_c-D"}, Version: timer.Version{TimestampMS: 1 << 43, CommandID: `~"\`},
			State: timer.Reached, CorrelationID: `req"7`, DueAt: noon, ReachedAt: noon.Add(2 * time.Millisecond),
			Trace: timer.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=b<&>"},
		},
		{
			Key: timer.Key{TenantID: "acme", ServiceCallID: "b"}, Version: timer.Version{CommandID: "c"}, State: timer.Scheduled,
			DueAt: time.Date(2200, 12, 31, 23, 59, 59, 999e6, time.UTC),
		},
		{Key: timer.Key{TenantID: "acme", ServiceCallID: "c"}, Version: timer.Version{TimestampMS: 1, CommandID: "c"}, State: timer.Canceled},
		{Key: timer.Key{TenantID: "zoe", ServiceCallID: "tombstone"}, Version: timer.Version{TimestampMS: 1<<53 - 1, CommandID: "c"}, State: timer.Canceled},
	}
}

// export returns an export of timers.
func export(t testing.TB, entries []timer.Entry) string {
	t.Helper()
	var b bytes.Buffer
	must(t, store.WriteExport(&b, exportedAt, each(entries)))
	return b.String()
}

func each(entries []timer.Entry) func(func(*timer.Entry) error) error {
	return func(yield func(*timer.Entry) error) error {
		for i := range entries {
			if err := yield(&entries[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// exportOf returns an export of a store.
func exportOf(t testing.TB, from store.Source) string {
	t.Helper()
	var b bytes.Buffer
	_, err := store.Export(t.Context(), from, exportedAt, &b, nil)
	must(t, err)
	return b.String()
}

// signed returns an export whose trailer is right for its lines.
func signed(file string) string {
	header, rest, _ := strings.Cut(file, "\n")
	body := rest[:strings.Index(rest, `{"kind":"trailer"`)]
	trailer := rest[len(body):]
	sum := sha256.Sum256([]byte(body))
	at := strings.Index(trailer, `"sha256":"`) + len(`"sha256":"`)
	return header + "\n" + body + trailer[:at] + hex.EncodeToString(sum[:]) + trailer[at+64:]
}

// TestFormat holds the format against a file: what was exported once must be
// importable for ever, or the version changes.
func TestFormat(t *testing.T) {
	t.Parallel()
	path := filepath.Join("testdata", "export.jsonl")
	got := export(t, samples())
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
	entries, err := store.ReadExport(bytes.NewReader(want))
	must(t, err)
	if diff := cmp.Diff(samples(), entries); diff != "" {
		t.Errorf("read (-exported +read):\n%s", diff)
	}
	to := open(t, sqlite.Options{})
	sum, err := importFile(t.Context(), to, bytes.NewReader(want), noon, nil)
	must(t, err)
	if want := "4 timers (1 Scheduled, 1 Reached, 0 Expired, 2 Canceled)"; sum.String() != want {
		t.Errorf("summary is %s, want %s", sum, want)
	}
	if diff := cmp.Diff(string(want), exportOf(t, to)); diff != "" {
		t.Errorf("exported again (-imported +exported):\n%s", diff)
	}
}

// A program from before 0.1.0 exports timers with fields that have no meaning any more.
// With events its export is refused.
func TestImportFromBeforeTheFirstRelease(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "before.jsonl"))
	must(t, err)
	to := open(t, sqlite.Options{})
	_, err = importFile(t.Context(), to, bytes.NewReader(text), noon, nil)
	must(t, err)
	want := samples()
	want[0].Version.TimestampMS, want[3].Version.TimestampMS = 1893455999000, 1
	if got := exportOf(t, to); got != export(t, want) {
		t.Errorf("it became\n%s\nwant\n%s", got, export(t, want))
	}
	file := signed(strings.Replace(string(text), `{"kind":"trailer"`, `{"kind":"event","id":"0190-a","appendedAt":"2030-05-17T12:00:00.000Z","attempts":0,"headers":{},"body":""}`+"\n"+`{"kind":"trailer"`, 1))
	if _, err := store.ReadExport(strings.NewReader(file)); err == nil || !strings.HasPrefix(err.Error(), "line 6: it is an event, which is not imported") {
		t.Errorf("with an event: %v", err)
	}
}

// TestImportTakesWhatPipesGive reads in pieces, without the last end of line, and
// lines that fit no buffer.
func TestImportTakesWhatPipesGive(t *testing.T) {
	t.Parallel()
	entries := samples()
	entries[1].Data = `"` + strings.Repeat("x", 4000) + `"`
	file := export(t, entries)
	for name, r := range map[string]io.Reader{
		"byte by byte":        iotest.OneByteReader(strings.NewReader(file)),
		"without the last \n": strings.NewReader(strings.TrimSuffix(file, "\n")),
		"with an early end":   iotest.DataErrReader(strings.NewReader(file)),
	} {
		got, err := store.ReadExport(r)
		if diff := cmp.Diff(entries, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-exported +read):\n%s", name, err, diff)
		}
	}
}

// TestImportRefuses spoils an export. Nothing of it is kept, and the error names
// the line.
func TestImportRefuses(t *testing.T) {
	t.Parallel()
	file := export(t, samples())
	lines := strings.SplitAfter(file, "\n")
	replace := func(old, new string) string {
		if !strings.Contains(file, old) {
			t.Fatalf("the export does not hold %s", old)
		}
		return signed(strings.Replace(file, old, new, 1))
	}
	without := func(n int) string { return signed(strings.Replace(file, lines[n-1], "", 1)) }
	tests := []struct {
		name, file string
		want       string // in the error, which begins with its first word
	}{
		{"nothing", "", "line 1: the file is empty"},
		{"something else", "tenant,call\nacme,a\n", "line 1: this is not an export of the timer service"},
		{"a newer version", strings.Replace(file, `"version":1,`, `"version":2,"compressed":true,`, 1), "line 1: the export has version 2, this binary knows 1: use a newer binary"},
		{"one tenant, of version 0.1.0", strings.Replace(file, `"version":1,`, `"version":1,"tenantId":"acme",`, 1), "line 1: it has the timers of tenant acme alone: import it with version 0.1.0"},
		{"a header with a wrong time", strings.Replace(file, "2030-05-17T13:00:00.000Z", "yesterday", 1), `line 1: exportedAt is "yesterday"`},

		{"an unknown field", replace(`"state":"Reached"`, `"state":"Reached","priority":1`), `line 2: the field "priority" is not known`},
		{"a field in another case", replace(`"state":"Reached"`, `"State":"Reached"`), `line 2: the field "State" is not known`},
		{"a field twice", replace(`"state":"Reached"`, `"state":"Scheduled","state":"Reached"`), `line 2: the field "state" occurs twice`},
		{"a line that is no JSON", signed(lines[0] + "{\"kind\":\"timer\",\n" + strings.Join(lines[1:], "")), "line 2: it is not valid JSON at byte 16: unexpected EOF"},
		{"a line of an unknown kind", signed(lines[0] + "{\"kind\":\"quota\"}\n" + strings.Join(lines[1:], "")), `line 2: it begins with "{\"kind\":\"quota\"}"`},
		{"line ends of Windows", strings.ReplaceAll(file, "\n", "\r\n"), "line 6: the checksum is"},
		{"not UTF-8", replace(`"serviceCallId":"b"`, "\"serviceCallId\":\"\xff\""), `line 3: it is not valid JSON at byte 51: invalid UTF-8`},

		{"a field of another type", replace(`"timestampMs":0`, `"timestampMs":"0"`), `line 3: the field "timestampMs" has the wrong type`},
		{"no command", replace(`,"commandId":"c"`, ""), "line 3: invalid: id is empty"},
		{"data that are no JSON", replace(`"commandId":"c"}`, `"commandId":"c","data":"1,2"}`), "line 3: invalid: data is not one JSON value"},
		{"an unknown state", replace(`"state":"Scheduled"`, `"state":"Paused"`), `line 3: state is "Paused", want Scheduled, Reached, Expired or Canceled`},
		{"a time without zone", replace(`"dueAt":"2030-05-17T12:00:00.000Z"`, `"dueAt":"2030-05-17T12:00:00.000"`), `line 2: dueAt is "2030-05-17T12:00:00.000", want a time like`},
		{"due too late", replace(`"dueAt":"2200-`, `"dueAt":"2201-`), "line 3: invalid: dueAt is in the year 2201"},
		{"Reached, no time", replace(`"reachedAt":"2030-05-17T12:00:00.002Z",`, ""), "line 2: reachedAt must be set if the timer is Reached or Expired, and absent if it is not"},
		{"Reached early", replace(`"reachedAt":"2030-05-17T12:00:00.002Z"`, `"reachedAt":"2030-05-17T11:59:59.999Z"`), "line 2: reachedAt is before dueAt"},
		{"a line too long", replace(`"commandId":"c"}`, `"commandId":"c","data":"`+strings.Repeat("x", 4<<20)+`"}`), "line 3: it has more than 4194304 bytes"},

		{"out of order", signed(lines[0] + lines[2] + lines[1] + strings.Join(lines[3:], "")), "line 3: timer ACME.a:1.b_c-D does not come after acme.b"},
		{"a timer twice", signed(lines[0] + lines[1] + strings.Join(lines[1:], "")), "line 3: timer ACME.a:1.b_c-D does not come after ACME.a:1.b_c-D"},

		{"an early end", strings.Join(lines[:5], ""), "line 6: the file ends here, without a trailer: it is incomplete"},
		{"an early end within a line", strings.Join(lines[:4], "") + lines[4][:20], "line 5: it is not valid JSON at byte 20: unexpected EOF"},
		{"nothing but a header", lines[0], "line 2: the file ends here, without a trailer"},
		{"a wrong checksum", strings.Replace(file, `"commandId":"c"`, `"commandId":"d"`, 1), "line 6: the checksum is"},
		{"a line is missing and signed", without(4), "line 5: the counts are 4 timers (1 Scheduled, 1 Reached, 0 Expired, 2 Canceled), those of the lines before it 3 timers"},
		{"a trailer with an unknown field", replace(`"reached":1`, `"reached":1,"odd":1`), `line 6: the field "odd" is not known`},
		{"something behind the trailer", file + "\n", "line 7: more lines follow the trailer"},
	}
	to := open(t, sqlite.Options{})
	for _, tt := range tests {
		_, err := importFile(t.Context(), to, strings.NewReader(tt.file), noon, nil)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: got %v\nwant %s", tt.name, err, tt.want)
		}
		if st, err := to.Stats(t.Context(), ""); err != nil || st != (timer.Stats{}) {
			t.Errorf("%s: %+v were kept, %v", tt.name, st, err)
		}
	}
}

// Events are not in an export, so nothing is exported while there are any.
func TestExportRefusesAStoreWithEvents(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Options{})
	event := samples()[0].Event()
	must(t, s.Update(t.Context(), func(tx timer.Tx) error { return tx.Emit(t.Context(), event) }))
	refuses := func(want string) {
		t.Helper()
		if _, err := store.Export(t.Context(), s, exportedAt, io.Discard, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("export: %v, want %s", err, want)
		}
		if _, err := importFile(t.Context(), s, strings.NewReader(export(t, samples())), noon, nil); !errors.Is(err, store.ErrNotEmpty) {
			t.Errorf("import: %v, want %v", err, store.ErrNotEmpty)
		}
	}
	refuses("events wait for the broker (1) or are parked (0)")
	rows, err := s.Head(t.Context(), 0, 1)
	must(t, err)
	must(t, s.Park(t.Context(), noon, rows[0].Place, "refused"))
	refuses("events wait for the broker (0) or are parked (1)")
}

// many returns timers that wait.
func many(n int) []timer.Entry {
	entries := make([]timer.Entry, n)
	for i := range entries {
		entries[i] = timer.Entry{
			Key:     timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprintf("call-%06d", i))},
			Version: timer.Version{TimestampMS: noon.UnixMilli(), CommandID: fmt.Sprint("command-", i)},
			State:   timer.Scheduled, CorrelationID: "req-7f3a", DueAt: noon.Add(time.Duration(i) * time.Second),
		}
	}
	return entries
}

func TestExportFailsWithItsSourceAndItsFile(t *testing.T) {
	t.Parallel()
	entries := samples()
	entries[1].CorrelationID = "\xff"
	if err := store.WriteExport(io.Discard, exportedAt, each(entries)); err == nil || !strings.HasPrefix(err.Error(), `timer "acme.b": `) {
		t.Errorf("what is no text: %v", err)
	}
	full := writer(func([]byte) (int, error) { return 0, io.ErrShortWrite })
	if err := store.WriteExport(full, exportedAt, each(samples())); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a disk that is full: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Export(ctx, open(t, sqlite.Options{}), exportedAt, io.Discard, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// FuzzReadExport proves that what is read is written, and read again, as it was.
func FuzzReadExport(f *testing.F) {
	file := export(f, samples())
	f.Add(file)
	f.Add(strings.Replace(file, `"reached":1`, `"reached":01`, 1))
	for _, line := range strings.SplitAfter(file, "\n")[1:] {
		f.Add(strings.SplitAfter(file, "\n")[0] + line)
	}
	f.Fuzz(func(t *testing.T, file string) {
		if strings.Contains(file, `{"kind":"trailer"`) && strings.Contains(file, `"sha256":"`) && strings.Count(file, "\n") > 0 {
			if at := strings.LastIndex(file, `"sha256":"`); len(file) > at+80 && strings.Index(file, `{"kind":"trailer"`) > strings.Index(file, "\n") {
				file = signed(file) // without a signature no change would get through
			}
		}
		entries, err := store.ReadExport(strings.NewReader(file))
		if err != nil {
			return
		}
		again := export(t, entries)
		entries, err = store.ReadExport(strings.NewReader(again))
		if err != nil {
			t.Fatalf("read\n%s\nand can't read\n%s\n%v", file, again, err)
		}
		if third := export(t, entries); third != again {
			t.Errorf("wrote\n%s\nand then\n%s", again, third)
		}
	})
}

// importFile checks a file, and imports it.
func importFile(ctx context.Context, to store.Target, file io.ReadSeeker, now time.Time, progress store.Progress) (store.Summary, error) {
	x, err := store.Check(ctx, file, progress)
	if err != nil {
		return store.Summary{}, err
	}
	return x.Import(ctx, to, now)
}
