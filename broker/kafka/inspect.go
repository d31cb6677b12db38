package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

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
	if err := ping(ctx, client); err != nil {
		return found, err
	}
	admin := kadm.NewClient(client)
	found.Version, found.Rereads = "Kafka", true
	if versions, err := admin.ApiVersions(ctx); err == nil {
		for _, v := range versions.Sorted() {
			found.Version = "Kafka " + v.VersionGuess()
		}
	}
	topic := b.opt.Routing.Commands
	found.Keeps = "topic " + topic
	first, err := admin.ListOffsetsAfterMilli(ctx, 0, topic)
	if err != nil {
		return found, fmt.Errorf("topic %s: %w", topic, err)
	}
	first.Each(func(o kadm.ListedOffset) {
		if at := firstAt(o, b.opt.Clock.Now()); at.After(found.Oldest) {
			found.Oldest = at.UTC() // a partition may have lost what another one still has
		}
	})
	found.Owner, _, err = ownerOffset{client: admin, group: groupID{role, b.opt.Routing.Subscription()}.name(b.opt.Prefix) + ownerSuffix}.read(ctx)
	return found, err
}

// firstAt returns since when a partition has all that was written to it, by its first
// record; zero if nothing ever was. Without one, its offset is that of its end: all
// records are gone.
func firstAt(first kadm.ListedOffset, now time.Time) time.Time {
	switch {
	case first.Err != nil:
		return time.Time{}
	case first.Timestamp > 0:
		return time.UnixMilli(first.Timestamp)
	case first.Offset > 0:
		return now
	}
	return time.Time{}
}
