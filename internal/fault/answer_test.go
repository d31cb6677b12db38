package fault_test

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/internal/fault"
)

// A mailbox delivers the messages that are put in it.
type mailbox chan *message.Message

func (m mailbox) Close() error { return nil }

func (m mailbox) Subscribe(context.Context, string) (<-chan *message.Message, error) { return m, nil }

// TestAnswersGetLost acks or nacks a message, and reads which answer its broker gets.
func TestAnswersGetLost(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		kind   fault.Kind
		answer func(*message.Message) bool
		acked  bool
	}{
		{"an ack arrives", fault.None, (*message.Message).Ack, true},
		{"a nack arrives", fault.None, (*message.Message).Nack, false},
		{"an ack is lost", fault.Before, (*message.Message).Ack, false},
		{"an ack arrives and fails afterwards", fault.After, (*message.Message).Ack, true},
		{"a nack is lost", fault.Before, (*message.Message).Nack, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			box := make(mailbox, 1)
			sub := &fault.Subscriber{Subscriber: box, Decide: func(op string) fault.Kind {
				if op == "ack" || op == "nack" {
					return tt.kind
				}
				return fault.None
			}}
			messages, err := sub.Subscribe(t.Context(), "commands")
			if err != nil {
				t.Fatal(err)
			}
			sent := message.NewMessage("1", nil)
			box <- sent
			tt.answer(<-messages)
			select {
			case <-sent.Acked():
				if !tt.acked {
					t.Error("acked, want nacked")
				}
			case <-sent.Nacked():
				if tt.acked {
					t.Error("nacked, want acked")
				}
			}
			close(box)
			if _, open := <-messages; open {
				t.Error("a message after the last one")
			}
		})
	}
}
