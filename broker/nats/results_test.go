package nats_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/internal/logbuf"
)

// event returns a message of a tenant.
func event(tenant string, body []byte) broker.Message {
	return broker.Message{Topic: "svc." + tenant + ".serviceCall", Message: message.NewMessage(uuid.NewString(), body)}
}

// TestOneRefusedMessageFailsAlone has one message of a call be too large for the
// server, for the stream, or without a valid subject: alone, among a few, and in
// what would be an atomic batch.
func TestOneRefusedMessageFailsAlone(t *testing.T) {
	for _, n := range []int{1, 10, 1500} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := syncing(t)
				b := ready(t, nats.Options{Server: e})
				_, js := client(t, e)
				stream := streamOf(t, js)
				config := stream.CachedInfo().Config
				config.MaxMsgSize = 100_000
				if _, err := js.UpdateStream(t.Context(), config); err != nil {
					t.Fatal(err)
				}
				stored := uint64(0)
				for _, bad := range []broker.Message{
					event("acme", make([]byte, 2<<20)), event("acme", make([]byte, 200_000)), event("a b", nil), event("*", nil),
				} {
					var all []broker.Message
					for range n - 1 {
						all = append(all, event("beta", nil))
					}
					at := len(all) / 2
					all = append(all[:at:at], append([]broker.Message{bad}, all[at:]...)...)
					stored += uint64(n - 1)
					for i, err := range b.Publisher().Publish(t.Context(), all...) {
						if i == at && !errors.Is(err, broker.ErrRefused) || i != at && err != nil {
							t.Fatalf("message %d of %d, of which %d is bad: %v", i, n, at, err)
						}
					}
				}
				stream = streamOf(t, js)
				if got := stream.CachedInfo().State.Msgs; got != stored {
					t.Errorf("%d messages are stored, want %d", got, stored)
				}
			})
		})
	}
}

// TestOneDeniedSubjectFailsAlone has the server deny one tenant's subject.
func TestOneDeniedSubjectFailsAlone(t *testing.T) {
	t.Parallel()
	b := ready(t, user(provisioned(t, 0), "service"))
	for _, n := range []int{1, 10, 300} {
		var all []broker.Message
		for i := range n {
			m := event("acme", nil)
			if i == n/2 {
				m.Topic = "svc.acme.other" // which is not on the list
			}
			all = append(all, m)
		}
		began := time.Now()
		for i, err := range b.Publisher().Publish(t.Context(), all...) {
			if i == n/2 && (!errors.Is(err, broker.ErrDenied) || errors.Is(err, broker.ErrRefused) || !strings.Contains(err.Error(), "svc.acme.other")) || i != n/2 && err != nil {
				t.Errorf("message %d of %d: %v", i, n, err)
			}
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("%d messages took %v", n, took)
		}
	}
	if err := b.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func denying(t *testing.T, subject string) nats.Options {
	t.Helper()
	s := guarded(t, &server.Options{Users: []*server.User{{
		Username: "service", Password: "secret",
		Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: []string{subject}}},
	}}})
	return nats.Options{URL: s.ClientURL(), Security: nats.Security{Username: "service", Password: "secret"}}
}

// logging runs a broker until the test ends, waits until it is ready, and returns its log.
func logging(t *testing.T, opt nats.Options) (*nats.Broker, *logbuf.Buffer) {
	t.Helper()
	log := new(logbuf.Buffer)
	b := runLogging(t, opt, slog.New(slog.NewTextHandler(log, nil)))
	awaitReady(t, b)
	return b, log
}

func TestAcksThatAreDeniedAreReportedOnce(t *testing.T) {
	t.Parallel()
	b, log := logging(t, denying(t, "$JS.ACK.>"))
	messages := subscribe(t, b, role, commands)
	const n = 50
	for range n {
		send(t, b, commands, "command")
	}
	for range n {
		(<-messages).Ack()
	}
	awaitNotReady(t, b, "$JS.ACK")
	if lines := strings.Count(log.String(), "Permissions Violation"); lines > 10 {
		t.Errorf("%d lines about it", lines)
	}
}

func TestRequestThatIsDeniedFailsNoOther(t *testing.T) {
	t.Parallel()
	b := ready(t, denying(t, "$JS.API.STREAM.MSG.GET.svc-owner"))
	send(t, b, "svc.acme.dlq", "dead")
	ctx, stop := context.WithCancel(t.Context())
	var claiming sync.WaitGroup
	for range 4 {
		claiming.Go(func() {
			for ctx.Err() == nil {
				if _, err := b.Claim(ctx, role, broker.Owner{Database: "mine"}, false); err == nil {
					t.Error("a claim without the permission")
				}
			}
		})
	}
	for began := time.Now(); time.Since(began) < 3*time.Second && !t.Failed(); {
		if err := b.VisitDeadLetters(ctx, "acme", "", broker.EachDeadLetter(ctx, func(*message.Message) (bool, error) { return false, nil })); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("what is permitted: %v", err)
		}
	}
	stop()
	claiming.Wait()
}
