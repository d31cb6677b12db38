package inflight_test

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/inflight"
)

// A received is a message of a server that prints acks and retries.
type received struct {
	id   string
	done chan struct{} // closed at the first ack
}

// Bytes is what the message takes.
func (r received) Bytes() int { return len(r.id) }

// Message makes the message for handlers.
func (r received) Message() *message.Message { return message.NewMessage(r.id, nil) }

// Stale reports that the message is ours.
func (r received) Stale() bool { return false }

// Ack tells the server.
func (r received) Ack() { fmt.Println("server: handled", r.id); close(r.done) }

// Retry tells the server.
func (r received) Retry(delay time.Duration) bool {
	fmt.Println("server: again", r.id, delay)
	close(r.done)
	return true
}

// Return tells the server.
func (r received) Return() { fmt.Println("server: for another one", r.id); close(r.done) }

// A driver adds what it receives and hears what became of it.
func ExampleWindow() {
	w := inflight.New(context.Background(), inflight.Options{})
	for _, id := range []string{"m-1", "m-2"} {
		done := make(chan struct{})
		w.Add(received{id, done}, 1)
		msg := <-w.Messages()
		if msg.UUID == "m-1" {
			msg.Ack()
		} else {
			broker.RetryAfter(msg, time.Minute)
			msg.Nack()
		}
		<-done
	}
	w.Close()
	w.Wait(context.Background(), nil)
	// Output:
	// server: handled m-1
	// server: again m-2 1m0s
}

// What no handler has at the end of the intake goes back to the server.
func ExampleWindow_Close() {
	ctx, stop := context.WithCancel(context.Background())
	w := inflight.New(ctx, inflight.Options{})
	done := make(chan struct{})
	w.Add(received{"m-1", done}, 1)
	stop()
	w.Close()
	<-done
	w.Wait(context.Background(), nil)
	// Output: server: for another one m-1
}
