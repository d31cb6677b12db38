package nats_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
)

func denying(t *testing.T, subject string) nats.Options {
	t.Helper()
	s := guarded(t, &server.Options{Users: []*server.User{{
		Username: "service", Password: "secret",
		Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: []string{subject}}},
	}}})
	return nats.Options{URL: s.ClientURL(), Security: nats.Security{Username: "service", Password: "secret"}}
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
		if err := b.VisitDeadLetters(ctx, "acme", func(*message.Message) (bool, error) { return false, nil }); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("what is permitted: %v", err)
		}
	}
	stop()
	claiming.Wait()
}
