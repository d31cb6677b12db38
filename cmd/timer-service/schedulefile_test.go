package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestScheduleAFile has more timers of a tenant than a message takes, one twice,
// those of another tenant between them, in both forms, and lines that are wrong.
func TestScheduleAFile(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	due := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	lines := []string{"\uFEFF\"tenant\",call,due"} // as Excel writes it
	for i := range 1100 {
		lines = append(lines, fmt.Sprintf("acme, order-%d, %s", i, due))
	}
	lines = append(lines, `"acme", "order-1099",`+due, `{"tenantId":"beta","serviceCallId":"order-1","dueAt":"`+due+`"}`,
		"acme,order 7,"+due, "acme,order-8", "acme,order-9,tomorrow", "{")
	tailed := tailing(t, environ, "commands", "-n", "5", "-o", "json")
	got := do(t, environ, "schedule", "--file", fileOf(t, lines...)).wants(t, exitFailure)
	if want := "1102 published, 4 refused\n"; got.stdout != want {
		t.Errorf("prints %q, want %q", got.stdout, want)
	}
	for _, want := range []string{"line 1104: ", "line 1105: is not tenant,call,due", "line 1106: ", "line 1107: ", "timers refused: 4"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, got.stderr)
		}
	}
	for _, m := range objects(t, (<-tailed).wants(t, exitOK).stdout) {
		has(t, m["headers"].(map[string]any), map[string]any{"type": "ScheduleTimer"})
	}
	do(t, environ, "schedule", "--file", fileOf(t,
		`{"tenantId":"acme","serviceCallId":"data-1","dueAt":"`+due+`","data": {"a" : 1} }`,
		`{"tenantId":"acme","serviceCallId":"data-2","dueAt":"`+due+`","data":{"a":1,"a":2}}`,
		`{"tenantId":"acme","serviceCallId":"data-3","dueAt":"`+due+`","data":`+strings.Repeat("[", 13)+strings.Repeat("]", 13)+`}`)).wants(t, exitFailure)
	awaitTimer(t, environ, "data-1")
	if got := do(t, append(environ, "TIMER_HTTP_ADDR="), "get", "acme", "data-1", "--data").wants(t, exitOK).stdout; !strings.HasSuffix(got, "\n{\"a\" : 1}\n") {
		t.Errorf("the data of a file are %s", got)
	}
	for _, call := range []string{"order-0", "order-1099"} {
		awaitTimer(t, environ, call)
	}
}
