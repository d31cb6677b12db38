package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/event-service-agent/timer-service/broker"
)

// Inspect describes the cluster and the owner of the commands that a role takes. It
// changes nothing, and makes its own connection: Run need not run. Absent topics are no
// error.
func (b *Broker) Inspect(ctx context.Context, role string) (found broker.Inspection, err error) {
	err = b.connected(ctx, func(ctx context.Context, client *kgo.Client) error {
		versions, err := apiVersions(ctx, client)
		if err != nil {
			return err
		}
		found.Version, found.Rereads = "Kafka "+kversion.FromApiVersionsResponse(versions).VersionGuess(), true
		found.Keeps = "topic " + b.opt.Routing.Commands
		logs, err := b.commandLogs(ctx, kadm.NewClient(client), role)
		if err != nil {
			return err
		}
		found.Oldest = oldest(logs, clock())
		found.Owner, err = b.owner(ctx, client, role)
		return err
	})
	return found, err
}

// oldest returns the time since which no command was removed, zero if none was ever
// written. It is the latest of all partitions, since one may have lost commands of a time
// that another one still has. A partition without records has lost all that it had.
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
