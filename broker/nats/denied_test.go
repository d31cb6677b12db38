package nats_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/internal/logbuf"
)

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
	until(t, "a broker that is ready", func() bool { return b.Ready(t.Context()) == nil })
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
	until(t, "word of the permission", func() bool {
		err := b.Ready(t.Context())
		return err != nil && strings.Contains(err.Error(), "$JS.ACK")
	})
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
