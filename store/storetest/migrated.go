package storetest

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

var updateFixtures = flag.Bool("update-fixtures", false, "write fixtures of versions that are not released again, with the schema of now, and what stores hold that were migrated from them")

// released is the newest version of the schema that a release has. Steps up to it, and
// their fixtures, do not change any more.
const released = 2

// rowsMark is the line of a fixture that is followed by its rows.
const rowsMark = "-- Rows.\n"

// fixture returns a database of a version of the schema as SQL statements, from the file
// testdata/schema/NNNN.sql: its schema, and rows. With -update-fixtures it is written
// again with the schema that is given, that of the newest version, until it is released.
func fixture(t *testing.T, version int64, schema string) string {
	t.Helper()
	name := fixtureName(version)
	text, err := os.ReadFile(name + ".sql")
	if *updateFixtures && version > released {
		_, rows, _ := strings.Cut(string(text), rowsMark)
		text = []byte(schema + rowsMark + rows)
		err = os.WriteFile(name+".sql", text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func fixtureName(version int64) string {
	return filepath.Join("testdata", "schema", fmt.Sprintf("%04d", version))
}

// holds compares all that a store holds, and what fires in it, with the file
// testdata/schema/NNNN.txt. The store was migrated from a [fixture].
func holds(t *testing.T, version int64, s Store) {
	t.Helper()
	got := holdings(t, s)
	name := fixtureName(version) + ".txt"
	if *updateFixtures && version > released {
		if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("from schema %d (-want +got):\n%s", version, diff)
	}
}

// holdings returns all that a store holds as lines for people, and then what fires.
func holdings(t *testing.T, s Store) string {
	t.Helper()
	ctx := t.Context()
	var b strings.Builder
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	line := func(what string, v any) {
		t.Helper()
		// Without zero fields, a new field leaves the files of released versions as they are.
		text, err := json.Marshal(v, json.OmitZeroStructFields(true), json.Deterministic(true), jsontext.EscapeForJS(true))
		must(err)
		fmt.Fprintf(&b, "%s %s\n", what, text)
	}

	id, _, err := s.Identity(ctx)
	must(err)
	line("characters of its id", len(id))
	tenants, err := s.Tenants(ctx, "", timer.MaxPage)
	must(err)
	for _, tenant := range tenants {
		line("counts", tenant)
		page, err := s.List(ctx, timer.Filter{TenantID: tenant.TenantID, Limit: timer.MaxPage})
		must(err)
		for _, e := range page.Entries {
			again, err := s.Get(ctx, e.Key)
			must(err)
			if again != e {
				t.Errorf("get %s: %+v, in the list %+v", e.Key, again, e)
			}
			line("timer", e)
		}
	}
	head, err := s.Head(ctx, 0, 100)
	must(err)
	deferred, err := s.Deferred(ctx, far, "", 100, 100)
	must(err)
	for _, row := range slices.Concat(head, deferred) {
		line("event", []any{row.Seq, row.Message.UUID, row.Message.Metadata, string(row.Message.Payload), row.Attempts, row.Destination})
	}
	parked, err := s.Parked(ctx, "", 0, 100)
	must(err)
	for _, e := range parked {
		line("parked", e)
	}
	stats, err := s.Stats(ctx, "")
	must(err)
	line("stats", stats)
	firing, err := s.Firing(ctx, noon)
	must(err)
	line("paused", firing)
	counts, err := s.Inbox().InboxCounts(ctx, "")
	must(err)
	for _, c := range counts {
		line("inbox", c)
	}
	messages, err := s.Inbox().TakeInbox(ctx, far, far, 100, 100, nil)
	must(err)
	for _, tenant := range tenants {
		applied, err := s.Inbox().AppliedSelections(ctx, tenant.TenantID, 0)
		must(err)
		messages = append(messages, applied...)
	}
	for _, m := range messages {
		line("message", m)
	}
	rows := func(what, query string, columns func() []any) {
		t.Helper()
		rows, err := s.DB().QueryContext(ctx, query)
		must(err)
		defer rows.Close()
		for rows.Next() {
			all := columns()
			must(rows.Scan(all...))
			line(what, all)
		}
		must(rows.Err())
	}
	rows("number", `SELECT broker, log, kind, number FROM timer_numbers ORDER BY broker, log, kind`,
		func() []any { return []any{new(string), new(string), new(string), new(int64)} })
	rows("decision", `SELECT tenant_id, kind, published, decided_at FROM timer_decisions ORDER BY tenant_id, kind`,
		func() []any {
			return []any{new(string), new(string), new(bool), new(scannedTime)}
		})

	var fired []timer.Entry
	must(s.Update(ctx, func(tx timer.Tx) (err error) {
		fired, err = tx.Reach(ctx, far, 100, nil)
		return err
	}))
	slices.SortFunc(fired, func(a, b timer.Entry) int { return cmp.Compare(a.Key.String(), b.Key.String()) })
	for _, e := range fired {
		line("fires", []any{e.Key, e.Version, e.DueAt, e.Data, envelope.EventID(e.Event())})
	}
	return b.String()
}

// A scannedTime is a time of any database.
type scannedTime struct{ time.Time }

// Scan keeps the time.
func (d *scannedTime) Scan(column any) error { return (*store.Time)(&d.Time).Scan(column) }

// far is after the due times of all timers.
var far = time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC)
