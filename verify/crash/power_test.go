package crash

import (
	"testing"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// TestJudgesWhatTheStreamHolds has a run send one command, which the broker acked at 1,
// and see one dead letter, at 2.
func TestJudgesWhatTheStreamHolds(t *testing.T) {
	t.Parallel()
	command := history.Message{Topic: history.CommandsTopic, Seq: 1, Body: []byte("command")}
	deadLetter := history.Message{Topic: "svc._.dlq", Seq: 2, Body: []byte("letter")}
	for _, tt := range []struct {
		name               string
		stored             []history.Message
		unstored, vanished int
	}{
		{"both", []history.Message{command, deadLetter}, 0, 0},
		{"no command", []history.Message{deadLetter}, 1, 0},
		{"another command in its place", []history.Message{{Topic: history.CommandsTopic, Seq: 1, Body: []byte("another")}, deadLetter}, 1, 0},
		{"no dead letter", []history.Message{command}, 0, 1},
		{"a dead letter of another tenant in its place", []history.Message{command, {Topic: "svc.a.dlq", Seq: 2, Body: []byte("letter")}}, 0, 1},
		{"nothing", nil, 1, 1},
	} {
		r := &run{stored: make(map[uint64]history.Message)}
		r.recorder.Sent(history.Sent{Command: history.Command{Kind: history.Foreign, Body: command.Body}, Acked: true, Seq: 1})
		r.recorder.Message(deadLetter)
		for _, m := range tt.stored {
			r.stored[m.Seq] = m
		}
		v := r.verdict()
		if v.Count(history.Unstored) != tt.unstored || v.Count(history.Vanished) != tt.vanished {
			t.Errorf("%s: %d unstored, %d vanished, want %d and %d", tt.name, v.Count(history.Unstored), v.Count(history.Vanished), tt.unstored, tt.vanished)
		}
	}
}
