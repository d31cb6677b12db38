package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/event-service-agent/timer-service/broker"
)

// Inspect returns what the cluster is, and who owns the commands that a role takes. It
// changes nothing, and connects by itself: Run need not run. Topics that are absent are
// no error.
func (b *Broker) Inspect(ctx context.Context, role string) (found broker.Inspection, err error) {
	if err := b.validate(); err != nil {
		return found, err
	}
	client, err := b.dial()
	if err != nil {
		return found, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	versions, err := apiVersions(ctx, client)
	if err != nil {
		return found, err
	}
	found.Version, found.Rereads = "Kafka "+kversion.FromApiVersionsResponse(versions).VersionGuess(), true
	found.Keeps = "topic " + b.opt.Routing.Commands
	logs, err := b.logs(ctx, client, role)
	if err != nil {
		return found, err
	}
	found.Oldest = oldest(logs, b.opt.Clock.Now())
	found.Owner, _, err = b.owner(ctx, client, role)
	return found, err
}

// oldest returns since when all commands are there, of all that were ever written; zero
// if none was. A partition may have lost what another one still has, and one without
// records has lost all that it had.
func oldest(logs []broker.Log, now time.Time) (since time.Time) {
	for _, l := range logs {
		if l.Last > 0 && l.Oldest.IsZero() {
			l.Oldest = now
		}
		if l.Oldest.After(since) {
			since = l.Oldest.UTC()
		}
	}
	return since
}
