package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/broker"
)

func TestProgressIsShownAtIntervals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		terminal bool
		want     string
	}{
		{false, "101 dead letters, 20/s\n201 dead letters, 20/s\n"},
		{true, "\r\x1b[K"},
	}
	for _, tt := range tests {
		var stderr strings.Builder
		clock := noon
		p := newProgress(&env{stderr: &stderr, now: func() time.Time { return clock }}, "dead letters")
		p.terminal = tt.terminal
		p.clear() // there is nothing to clear
		for range 220 {
			p.add(1)
			clock = clock.Add(50 * time.Millisecond)
		}
		p.clear()
		got := stderr.String()
		if !tt.terminal && got != tt.want {
			t.Errorf("a log shows %q, want %q", got, tt.want)
		}
		if tt.terminal && (strings.Count(got, "\r\x1b[K") != 110 || strings.Contains(got, "\n") || !strings.HasSuffix(got, "letters, 20/s\r\x1b[K")) {
			t.Errorf("a terminal shows %q", got)
		}
	}
	var none *progress
	none.add(1)
	none.clear()
	if isTerminal(&strings.Builder{}) || isTerminal(&checked{w: &strings.Builder{}}) {
		t.Error("a builder is not a terminal")
	}
	file, err := os.Create(fileOf(t))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if isTerminal(file) {
		t.Error("a file is not a terminal")
	}
}

// A broker may be unable to list the dead letters of all tenants.
func TestDlqSaysThatATenantMustBeNamed(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprintf(w, `{"detail":%q}`, broker.ErrNameTenant)
	}))
	defer s.Close()
	do(t, []string{"TIMER_SERVER=" + s.URL}, "dlq", "list").wants(t, exitUsage).says(t, "name a tenant with --tenant")
}
