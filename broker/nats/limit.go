package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
)

// errFull says that the stream takes no more.
var errFull = errors.New("the stream is full")

// ours is a metadata key of streams that the service has created, whose limits it may
// change.
const ours = "timer-service"

// largestEvent is more than the bytes of the largest event, with its headers.
const largestEvent = 8 << 10

// A limit stops publishes when it is reached.
type limit struct {
	name       string // for people
	used, most int64  // most is not positive if there is no limit
	margin     int64  // it counts as reached when less than this is left
	cure       string
}

func (l limit) ratio() float64 { return float64(l.used) / float64(l.most) }

// limits returns the limits of the stream that the server shows: its own, that of the account
// or its tier, and the disk of an embedded server. Other limits of a server, such as the size of
// its whole store, show when a publish is refused.
func (b *Broker) limits(ctx context.Context, s *session, info *streamInfo) []limit {
	stream, bytes := info.Config.Name, number(info.State.Bytes)
	account := b.account(ctx, s, max(info.Config.Replicas, 1))
	all := []limit{
		{"max_bytes of stream " + stream, bytes, info.Config.MaxBytes, 1 << 20, "raise nats_max_bytes and start again, or have the stream forget sooner (nats_max_age)"},
		{"max_msgs of stream " + stream, number(info.State.Msgs), info.Config.MaxMsgs, 1, "raise it (nats stream edit), or have the stream forget sooner (nats_max_age)"},
		{"storage of the account", number(account.Store), account.Limits.MaxStore, 1 << 20, "raise it (max_file of its jetstream), or have its streams forget sooner"},
	}
	if b.opt.Server != nil {
		all = append(all, limit{"disk of the embedded server", bytes, b.opt.Server.Capacity() / 3 * 4, 1 << 20, "make room on it"})
	}
	return slices.DeleteFunc(all, func(l limit) bool { return l.most <= 0 })
}

// account returns the usage and the limits of the account, or of its tier for streams with that
// number of replicas. It is empty if the server does not show it.
func (b *Broker) account(ctx context.Context, s *session, replicas int) jetstream.Tier {
	var info jetstream.AccountInfo
	if s.hidden.Load() {
		return info.Tier
	}
	err := b.ask(ctx, s, "INFO", struct{}{}, &info)
	if errors.Is(err, broker.ErrDenied) {
		s.hidden.Store(true)
		b.log.InfoContext(ctx, "it is not known how full the account is: permit $JS.API.INFO", "error", err)
	}
	if len(info.Tiers) > 0 {
		return info.Tiers[fmt.Sprint("R", replicas)]
	}
	return info.Tier
}

// fullest returns the limit that is closest to be reached; its name is empty if there is none.
func fullest(limits []limit) (most limit) {
	for _, l := range limits {
		if most.name == "" || l.ratio() > most.ratio() {
			most = l
		}
	}
	return most
}

// full returns an error while a limit is reached, that is, leaves no room for the largest
// message. Such a stream is read all the same, since consumed messages can be removed.
func full(limits []limit) *error {
	for _, l := range limits {
		if l.most-l.used < max(min(l.margin, l.most/16), 1) {
			return new(fmt.Errorf("%w: %d of %d of the %s are used: %s", errFull, l.used, l.most, l.name, l.cure))
		}
	}
	return nil
}

// noteUse notes how much of its size limit the stream uses, and up to where dead letters may be
// published, with their bodies and without. Where consumed messages are removed from three
// quarters of the limit on, a sixteenth is for dead letters with their bodies, another for those
// without. Commands and events have the rest, whatever fills the stream.
func (b *Broker) noteUse(info *jetstream.StreamInfo) {
	whole, headers := int64(13), int64(14)
	if _, made := info.Config.Metadata[ours]; !made { // it may have been full of other messages for long
		whole, headers = 15, 15
	}
	b.used.Store(number(info.State.Bytes))
	b.lettersTo.Store(info.Config.MaxBytes / 16 * whole)
	b.headersTo.Store(info.Config.MaxBytes / 16 * headers)
}

// roomFor returns a [broker.ErrDeadLettersFull] if a message is a dead letter that takes space
// which other messages need.
func (b *Broker) roomFor(m broker.Message) error {
	most := b.lettersTo.Load()
	if len(m.Payload) == 0 {
		most = b.headersTo.Load()
	}
	if most <= 0 || !isLetter(m.Metadata) {
		return nil
	}
	if used := b.used.Add(int64(len(m.Payload))); used > most {
		b.used.Add(-int64(len(m.Payload)))
		return fmt.Errorf("%w: %d bytes of the stream are used", broker.ErrDeadLettersFull, used)
	}
	return nil
}

func isLetter(metadata message.Metadata) bool {
	return metadata[envelope.HeaderType] == envelope.TypeDeadLetter
}

// applyLimits sets the size and age limits of the stream to the configured ones if the
// service has created it, and logs it if it can't. It sets no limit that would drop
// messages, or that the stored messages would fill. The space that the disk of an
// embedded server has left changes no limit. It lets messages be read by direct gets, too,
// which version 0.1.0 did not.
func (b *Broker) applyLimits(ctx context.Context, s *session, info *jetstream.StreamInfo) {
	is, want := info.Config, info.Config
	if bytes := b.maxBytes(); bytes >= b.opt.MaxBytes || is.MaxBytes >= b.opt.MaxBytes {
		want.MaxBytes = bytes
	}
	want.MaxAge = b.opt.MaxAge
	about := []any{"stream", is.Name, "max_bytes", is.MaxBytes, "nats_max_bytes", want.MaxBytes, "max_age", is.MaxAge, "nats_max_age", want.MaxAge}
	_, made := is.Metadata[ours]
	may, differs := made && !b.opt.Verify, want.MaxBytes != is.MaxBytes || want.MaxAge != is.MaxAge
	if !may || aboveThreshold(info, want.MaxBytes) {
		want.MaxBytes = is.MaxBytes
	}
	if !may || is.MaxAge == 0 || want.MaxAge < is.MaxAge {
		want.MaxAge = is.MaxAge
	}
	want.AllowDirect = is.AllowDirect || may
	if want.MaxBytes == is.MaxBytes && want.MaxAge == is.MaxAge && want.AllowDirect == is.AllowDirect {
		if differs {
			b.log.WarnContext(ctx, "the stream has other limits than nats_max_bytes and nats_max_age say, and keeps them", about...)
		}
		return
	}
	if err := b.ask(ctx, s, "STREAM.UPDATE."+is.Name, want, new(struct{})); err != nil {
		b.log.WarnContext(ctx, "the limits of the stream can't be set to nats_max_bytes and nats_max_age", append(about, "error", err)...)
		return
	}
	b.log.InfoContext(ctx, "set the limits of the stream to nats_max_bytes and nats_max_age", about...)
}
