package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
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

// Errors name the flag to use.
func TestDlqSaysHowItEnded(t *testing.T) {
	t.Parallel()
	down := errors.New("broker is down")
	tests := []struct {
		sum  deadletter.Summary
		err  error
		code int
		want string
	}{
		{deadletter.Summary{Done: 1}, nil, exitOK, ""},
		{deadletter.Summary{Missing: []string{"a\x1b", "b"}}, nil, exitNotFound, `no such dead letter: "a\x1b", "b"`},
		{deadletter.Summary{}, fmt.Errorf("visit: %w", broker.ErrNameTenant), exitUsage, "name a tenant with --tenant"},
		{deadletter.Summary{}, context.Canceled, exitFailure, "interrupted"},
		{deadletter.Summary{}, down, exitFailure, "broker is down"},
	}
	for _, tt := range tests {
		err := outcome("dlq list", tt.sum, tt.err)
		if code := codeOf(err); code != tt.code || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v, %v: exit code %d, %v; want %d, %q", tt.sum, tt.err, code, err, tt.code, tt.want)
		}
	}
	if err := outcome("stats", deadletter.Summary{}, broker.ErrNameTenant); codeOf(err) != exitUsage || strings.Contains(err.Error(), "--tenant") {
		t.Errorf("stats has no such flag: %v", err)
	}
}
