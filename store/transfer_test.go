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
	"github.com/event-service-agent/timer-service/timer"
)

var update = flag.Bool("update", false, "write the golden file")

// A memory is a store that keeps its records in memory.
type memory struct {
	records []store.Record
	spoil   func(*store.Record) // what becomes of a record that is read back
}

func (s *memory) Dump(_ context.Context, yield func(store.Record) error) error {
	for _, r := range s.records {
		if s.spoil != nil {
			s.spoil(&r)
		}
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

func (s *memory) Load(_ context.Context, next func() (store.Record, error)) error {
	if len(s.records) > 0 {
		return fmt.Errorf("load: %w", store.ErrNotEmpty)
	}
	var loaded []store.Record
	for {
		r, err := next()
		if errors.Is(err, io.EOF) {
			s.records = loaded
			return nil
		}
		if err != nil {
			return fmt.Errorf("load: %w", err)
		}
		if r.Timer.CommandID == "unloadable" {
			return errors.New("load: the database does not want it")
		}
		loaded = append(loaded, r)
	}
}

var noon = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

var exportedAt = store.Header{Source: "sqlite", SchemaVersion: 2, ExportedAt: noon.Add(time.Hour)}

// samples are records of all kinds, with and without all that is optional.
func samples() []store.Record {
	timers := []timer.Entry{
		{
			Key: timer.Key{TenantID: "ACME", ServiceCallID: "a:1.b_c-D"}, Version: timer.Version{TimestampMS: 1<<53 - 1, CommandID: `~"\`},
			State: timer.Reached, CorrelationID: `req"7`, DueAt: noon, RegisteredAt: noon.Add(-time.Hour), ReachedAt: noon.Add(2 * time.Millisecond),
			Trace: timer.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=b<&>"},
		},
		{
			Key: timer.Key{TenantID: "acme", ServiceCallID: "b"}, Version: timer.Version{CommandID: "c"}, State: timer.Scheduled,
			DueAt: time.Date(2200, 12, 31, 23, 59, 59, 999e6, time.UTC), RegisteredAt: time.UnixMilli(0).UTC(),
		},
		{
			Key: timer.Key{TenantID: "acme", ServiceCallID: "c"}, Version: timer.Version{TimestampMS: 1, CommandID: "c"}, State: timer.Canceled,
			DueAt: noon, RegisteredAt: noon, CanceledAt: noon,
		},
		{
			Key: timer.Key{TenantID: "zoe", ServiceCallID: "tombstone"}, Version: timer.Version{TimestampMS: 1, CommandID: "c"}, State: timer.Canceled,
			RegisteredAt: noon, CanceledAt: noon,
		},
	}
	var records []store.Record
	for _, e := range timers {
		records = append(records, store.Record{Kind: store.KindTimer, Timer: e})
	}
	return append(
		records,
		store.Record{Kind: store.KindOutbox, Event: store.Event{
			ID: "0190-b", AppendedAt: noon, Attempts: 2, LastError: "no \u2028 \x1b answer\n", Body: []byte(`{"id":"0190-b","é":"<\u0000>"}`),
			Headers: map[string]string{"type": "DueTimeReached", "messageId": "0190-b", "odd \"name\"": "é"},
		}},
		store.Record{Kind: store.KindOutbox, Event: store.Event{ID: "0190-a", AppendedAt: noon, Headers: map[string]string{}, Body: []byte{}}},
		store.Record{Kind: store.KindParked, Event: store.Event{
			ID: "0190-0", AppendedAt: noon, ParkedAt: noon.Add(time.Minute), Attempts: 5, LastError: "too large", Headers: map[string]string{"a": ""}, Body: []byte{0xff, 0},
		}},
	)
}

// export returns an export of records.
func export(t testing.TB, records []store.Record) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := store.Export(t.Context(), &memory{records: records}, exportedAt, &b, nil); err != nil {
		t.Fatal(err)
	}
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
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("export (-want +got):\n%s", diff)
	}
	if signed(got) != got {
		t.Error("the checksum is not that of the lines between the first and the last")
	}
	to := new(memory)
	sum, err := store.Import(t.Context(), to, bytes.NewReader(want), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(samples(), to.records); diff != "" {
		t.Errorf("imported (-exported +imported):\n%s", diff)
	}
	if want := "4 timers (1 Scheduled, 1 Reached, 2 Canceled), 2 events, 1 parked"; sum.String() != want || sum.Rows() != 7 {
		t.Errorf("summary is %s, %d rows, want %s", sum, sum.Rows(), want)
	}
}

// TestImportTakesWhatPipesGive reads in pieces, without the last end of line, and
// lines that fit no buffer.
func TestImportTakesWhatPipesGive(t *testing.T) {
	t.Parallel()
	records := samples()
	records[4].Event.Body = bytes.Repeat([]byte("long "), 20_000)
	file := export(t, records)
	for name, r := range map[string]io.Reader{
		"byte by byte":        iotest.OneByteReader(strings.NewReader(file)),
		"without the last \n": strings.NewReader(strings.TrimSuffix(file, "\n")),
		"with an early end":   iotest.DataErrReader(strings.NewReader(file)),
	} {
		to := new(memory)
		if _, err := store.Import(t.Context(), to, r, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(records, to.records); diff != "" {
			t.Errorf("%s (-exported +imported):\n%s", name, diff)
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
		{"another header", `{"kind":"header","format":"other","version":1}` + "\n", "line 1: this is not an export"},
		{"a newer version", strings.Replace(file, `"version":1,`, `"version":2,"compressed":true,`, 1), "line 1: the export has version 2, this binary knows 1: use a newer binary"},
		{"a header with an unknown field", strings.Replace(file, `"source"`, `"odd":1,"source"`, 1), `line 1: the field "odd" is not known`},
		{"a header with a wrong time", strings.Replace(file, "2030-05-17T13:00:00.000Z", "yesterday", 1), `line 1: exportedAt is "yesterday"`},
		{"a header in another form", strings.Replace(file, `"source":`, `"source": `, 1), "line 1: it is not written as export writes it"},

		{"an unknown field", replace(`"state":"Reached"`, `"state":"Reached","priority":1`), `line 2: the field "priority" is not known`},
		{"an unknown field of an event", replace(`"attempts":2`, `"attempts":2,"seq":7`), `line 6: the field "seq" is not known`},
		{"a field in another case", replace(`"state":"Reached"`, `"State":"Reached"`), `line 2: the field "State" is not known`},
		{"a field twice", replace(`"state":"Reached"`, `"state":"Scheduled","state":"Reached"`), `line 2: the field "state" occurs twice`},
		{"a line that is no JSON", signed(lines[0] + "{\"kind\":\"timer\",\n" + strings.Join(lines[1:], "")), "line 2: it is not valid JSON at byte 16: unexpected EOF"},
		{"a line of an unknown kind", signed(lines[0] + "{\"kind\":\"quota\"}\n" + strings.Join(lines[1:], "")), `line 2: it begins with "{\"kind\":\"quota\"}"`},
		{"an empty line", signed(lines[0] + "\n" + strings.Join(lines[1:], "")), `line 2: it begins with ""`},
		{"two exports", file + file, "line 10: more lines follow the trailer"},
		{"two headers", signed(lines[0] + file), `line 2: it begins with "{\"kind\":\"header\"`},
		{"another order of fields", replace(`"tenantId":"acme","serviceCallId":"b"`, `"serviceCallId":"b","tenantId":"acme"`), "line 3: it is not written as export writes it"},
		{"a field that is empty", replace(`"commandId":"c"}`, `"commandId":"c","traceparent":""}`), "line 3: it is not written as export writes it"},
		{"an escape that is not needed", replace(`"serviceCallId":"b"`, `"serviceCallId":"\u0062"`), "line 3: it is not written as export writes it"},
		{"line ends of Windows", strings.ReplaceAll(file, "\n", "\r\n"), "line 1: it is not written as export writes it"},
		{"not UTF-8", replace(`"serviceCallId":"b"`, "\"serviceCallId\":\"\xff\""), `line 3: it is not valid JSON at byte 51: invalid UTF-8`},

		{"a field of another type", replace(`"attempts":2`, `"attempts":"2"`), `line 6: the field "attempts" has the wrong type`},
		{"a header of another type", replace(`"type":"DueTimeReached"`, `"type":7`), `line 6: the field "type" has the wrong type`},
		{"null", replace(`"lastError":"too large"`, `"lastError":null`), "line 8: it is not written"},
		{"a tenant that is none", replace(`"tenantId":"acme","serviceCallId":"b"`, `"tenantId":"a.b","serviceCallId":"b"`), `line 3: invalid: tenantId "a.b"`},
		{"no command", replace(`,"commandId":"c"`, ""), "line 3: invalid: id is empty"},
		{"a correlation that is none", replace(`"correlationId":"req\"7"`, `"correlationId":"req 7"`), `line 2: invalid: correlationId "req 7"`},
		{"data that are no JSON", replace(`"commandId":"c"}`, `"commandId":"c","data":"1,2"}`), "line 3: invalid: data is not one JSON value"},
		{"data that are too long", replace(`"commandId":"c"}`, `"commandId":"c","data":"`+strings.Repeat("1", 4097)+`"}`), "line 3: invalid: data has 4097 bytes"},
		{"data that are empty", replace(`"commandId":"c"}`, `"commandId":"c","data":""}`), "line 3: it is not written as export writes it"},
		{"data of what is canceled", replace(`"timestampMs":1,"commandId":"c"}`, `"timestampMs":1,"commandId":"c","data":"1"}`), "line 4: data must be absent"},
		{"an unknown state", replace(`"state":"Scheduled"`, `"state":"Paused"`), `line 3: state is "Paused", want Scheduled, Reached or Canceled`},
		{"a time without zone", replace(`"dueAt":"2030-05-17T12:00:00.000Z"`, `"dueAt":"2030-05-17T12:00:00.000"`), `line 2: dueAt is "2030-05-17T12:00:00.000", want a time like`},
		{"a time finer than a millisecond", replace(`"dueAt":"2030-05-17T12:00:00.000Z"`, `"dueAt":"2030-05-17T12:00:00.000001Z"`), `line 2: dueAt is`},
		{"a time in another zone", replace(`"dueAt":"2030-05-17T12:00:00.000Z"`, `"dueAt":"2030-05-17T12:00:00.000+00:00"`), `line 2: dueAt is`},
		{"due too late", replace(`"dueAt":"2200-`, `"dueAt":"2201-`), "line 3: invalid: dueAt is in the year 2201"},
		{"no due time", replace(`"dueAt":"2200-12-31T23:59:59.999Z",`, ""), "line 3: dueAt is missing, though it is Scheduled"},
		{"no registration", replace(`"registeredAt":"1970-01-01T00:00:00.000Z",`, ""), "line 3: registeredAt is missing"},
		{"Reached, no time", replace(`"reachedAt":"2030-05-17T12:00:00.002Z",`, ""), "line 2: reachedAt must be set if the timer is Reached, and absent if it is not"},
		{"Reached early", replace(`"reachedAt":"2030-05-17T12:00:00.002Z"`, `"reachedAt":"2030-05-17T11:59:59.999Z"`), "line 2: reachedAt is before dueAt"},
		{"Canceled, no time", replace(`"canceledAt":"2030-05-17T12:00:00.000Z",`, ""), "line 4: canceledAt must be set if the timer is Canceled"},
		{"Scheduled, but canceled", replace(`"state":"Scheduled","dueAt":"2200-12-31T23:59:59.999Z","registeredAt":"1970-01-01T00:00:00.000Z"`,
			`"state":"Scheduled","dueAt":"2200-12-31T23:59:59.999Z","registeredAt":"1970-01-01T00:00:00.000Z","canceledAt":"1970-01-01T00:00:00.000Z"`), "line 3: canceledAt must be set if the timer is Canceled"},
		{"parked, no time", replace(`"parkedAt":"2030-05-17T12:01:00.000Z",`, ""), "line 8: parkedAt must be set for parked events"},
		{"an event that waits and is parked", replace(`"attempts":2`, `"parkedAt":"2030-05-17T12:01:00.000Z","attempts":2`), "line 6: parkedAt must be set for parked events"},
		{"fewer attempts than none", replace(`"attempts":2`, `"attempts":-2`), "line 6: attempts is negative"},
		{"an event without an id", replace(`"id":"0190-a",`, ""), "line 7: invalid: id is empty"},
		{"an event from no time", replace(`"appendedAt":"2030-05-17T12:00:00.000Z",`, ""), "line 6: appendedAt is missing"},
		{"an event without headers", replace(`"headers":{},`, ""), "line 7: it is not written"},
		{"headers out of order", replace(`"odd \"name\"":"é","type":"DueTimeReached"`, `"type":"DueTimeReached","odd \"name\"":"é"`), "line 6: it is not written"},
		{"two bodies", replace(`"body":""`, `"body":"","bodyBase64":"/wA="`), "line 7: it is not written"},
		{"a body that is no base64", replace(`"bodyBase64":"/wA="`, `"bodyBase64":"/wA"`), "line 8: bodyBase64: illegal base64"},
		{"a body that is text after all", replace(`"bodyBase64":"/wA="`, `"bodyBase64":"YQ=="`), "line 8: it is not written"},
		{"a zero in a text", replace(`"lastError":"too large"`, `"lastError":"too\u0000large"`), "line 8: it is not written"},
		{"a line too long", replace(`"body":""`, `"body":"`+strings.Repeat("x", 17<<20)+`"`), "line 7: it has more than 16777216 bytes"},

		{"out of order", signed(lines[0] + lines[2] + lines[1] + strings.Join(lines[3:], "")), "line 3: timer ACME.a:1.b_c-D does not come after acme.b"},
		{"a timer twice", signed(lines[0] + lines[1] + strings.Join(lines[1:], "")), "line 3: timer ACME.a:1.b_c-D does not come after ACME.a:1.b_c-D"},
		{"a timer behind an event", signed(strings.Join(lines[:4], "") + lines[5] + lines[4] + strings.Join(lines[6:], "")), "line 6: it is out of order"},
		{"an event behind a parked one", signed(strings.Join(lines[:5], "") + lines[7] + lines[5] + lines[6] + lines[8]), "line 7: it is out of order"},

		{"an early end", strings.Join(lines[:8], ""), "line 9: the file ends here, without a trailer: it is incomplete"},
		{"an early end within a line", strings.Join(lines[:4], "") + lines[4][:20], "line 5: it is not valid JSON at byte 20: unexpected EOF"},
		{"an early end within the trailer", file[:len(file)-3], "line 9: it is not valid JSON at byte 153: unexpected EOF"},
		{"nothing but a header", lines[0], "line 2: the file ends here, without a trailer"},
		{"a wrong checksum", strings.Replace(file, `"commandId":"c"`, `"commandId":"d"`, 1), "line 9: the checksum is"},
		{"a line is missing", strings.Replace(file, lines[3], "", 1), "line 8: the checksum is"},
		{"a line is missing and signed", without(4), "line 8: the counts are 4 timers (1 Scheduled, 1 Reached, 2 Canceled), 2 events, 1 parked, those of the lines before it 3 timers"},
		{"a wrong count", replace(`"reached":1`, `"reached":2`), "line 9: the counts are"},
		{"a trailer with an unknown field", replace(`"parked":1`, `"parked":1,"odd":1`), `line 9: the field "odd" is not known`},
		{"a trailer in another form", replace(`"scheduled":1,"reached":1`, `"reached":1,"scheduled":1`), "line 9: it is not written"},
		{"something behind the trailer", file + "\n", "line 10: more lines follow the trailer"},
		{"what the database does not want", replace(`"commandId":"c"`, `"commandId":"unloadable"`), "at line 3 or a little before it: load: the database does not want it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			to := new(memory)
			_, err := store.Import(t.Context(), to, strings.NewReader(tt.file), nil)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v\nwant %s", err, tt.want)
			}
			if len(to.records) > 0 {
				t.Errorf("%d records were kept", len(to.records))
			}
		})
	}
}

func TestImportReportsErrorsOutsideTheFile(t *testing.T) {
	t.Parallel()
	file := export(t, samples())
	full := &memory{records: samples()[:1]}
	if _, err := store.Import(t.Context(), full, strings.NewReader(file), nil); !errors.Is(err, store.ErrNotEmpty) || strings.Contains(err.Error(), "line") {
		t.Errorf("into what is not empty: %v", err)
	}
	forgetful := &memory{spoil: func(r *store.Record) { r.Timer.CorrelationID = "" }}
	if _, err := store.Import(t.Context(), forgetful, strings.NewReader(file), nil); err == nil || !strings.Contains(err.Error(), "the database does not hold what was imported") {
		t.Errorf("a store that forgets: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Import(ctx, new(memory), strings.NewReader(file), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	broken := io.MultiReader(strings.NewReader(file[:600]), iotest.ErrReader(errors.New("the pipe broke")))
	if _, err := store.Import(t.Context(), new(memory), broken, nil); err == nil || !strings.HasPrefix(err.Error(), "line 3: the pipe broke") {
		t.Errorf("a broken pipe: %v", err)
	}
}

func TestDataAreExportedByteForByte(t *testing.T) {
	t.Parallel()
	records := samples()
	records[0].Timer.Data, records[1].Timer.Data = "{\"a\" :\t1,\n \"b\":\"\\u00e9\u2028<>\"}", "null"
	to := new(memory)
	if _, err := store.Import(t.Context(), to, strings.NewReader(export(t, records)), nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(records, to.records); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExportRefusesWhatCouldNotBeImported(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(r []store.Record){
		`timer "acme.b": correlationId is not text`:         func(r []store.Record) { r[1].Timer.CorrelationID = "\xff" },
		`timer "acme.b": tracestate is not text`:            func(r []store.Record) { r[1].Timer.Trace.State = "a\x00" },
		`timer "acme.b": registeredAt is in the year 0`:     func(r []store.Record) { r[1].Timer.RegisteredAt = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC) },
		`event "0190-b": header type is not text`:           func(r []store.Record) { r[4].Event.Headers["type"] = "\xff" },
		`event "0190-b": the name of a header is not text`:  func(r []store.Record) { r[4].Event.Headers["\xff"] = "" },
		`event "0190-b": it takes more than 16777216 bytes`: func(r []store.Record) { r[4].Event.Body = bytes.Repeat([]byte("x"), 17<<20) },
	} {
		records := samples()
		spoil(records)
		if _, err := store.Export(t.Context(), &memory{records: records}, exportedAt, io.Discard, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	full := writer(func([]byte) (int, error) { return 0, io.ErrShortWrite })
	if _, err := store.Export(t.Context(), &memory{records: samples()}, exportedAt, full, nil); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a disk that is full: %v", err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// The error text of a broker may have any bytes.
func TestErrorsOfBrokersAreMadeText(t *testing.T) {
	t.Parallel()
	records := samples()
	records[4].Event.LastError = "a\xff\x00b"
	to := new(memory)
	if _, err := store.Import(t.Context(), to, strings.NewReader(export(t, records)), nil); err != nil {
		t.Fatal(err)
	}
	if got := to.records[4].Event.LastError; got != "a\uFFFD\uFFFDb" {
		t.Errorf("it became %q", got)
	}
}

func TestTransferReportsProgress(t *testing.T) {
	t.Parallel()
	var records []store.Record
	for i := range 1300 {
		e := samples()[1]
		e.Timer.ServiceCallID = timer.ServiceCallID(fmt.Sprintf("call-%06d", i))
		records = append(records, e)
	}
	reported := make(map[string]int)
	calls := 0
	progress := func(stage string, n int) { reported[stage] += n; calls++ }
	var b bytes.Buffer
	if _, err := store.Export(t.Context(), &memory{records: records}, exportedAt, &b, progress); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Import(t.Context(), new(memory), &b, progress); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{store.StageExport: 1300, store.StageImport: 1300, store.StageVerify: 1300}, reported); diff != "" || calls != 9 {
		t.Errorf("reported in %d calls, want 9 (-want +got):\n%s", calls, diff)
	}
}

// FuzzImport proves that whatever is imported is exported again as it was.
func FuzzImport(f *testing.F) {
	file := export(f, samples())
	f.Add(file)
	f.Add(strings.Replace(file, `"reached":1`, `"reached":01`, 1))
	for _, line := range strings.SplitAfter(file, "\n")[1:] {
		f.Add(strings.SplitAfter(file, "\n")[0] + line)
	}
	f.Fuzz(func(t *testing.T, file string) {
		if strings.Contains(file, `{"kind":"trailer"`) && strings.Contains(file, `"sha256":"`) && strings.Count(file, "\n") > 0 {
			if at := strings.LastIndex(file, `"sha256":"`); len(file) > at+80 && strings.Index(file, `{"kind":"trailer"`) > strings.Index(file, "\n") {
				file = signed(file) // else no change would get through
			}
		}
		to := new(memory)
		if _, err := store.Import(t.Context(), to, strings.NewReader(file), nil); err != nil {
			return
		}
		_, want, _ := strings.Cut(file, "\n")
		_, got, _ := strings.Cut(export(t, to.records), "\n")
		if strings.TrimSuffix(got, "\n") != strings.TrimSuffix(want, "\n") {
			t.Errorf("imported\n%s\nexported\n%s", want, got)
		}
	})
}
