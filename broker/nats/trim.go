package nats

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	trimStep     = 10_000 // sequences in one removal; the stream waits for the end of a removal
	maxUncovered = 100    // most subjects without a consumer that are looked up one by one
)

// needsTrim reports whether the service has made the stream and it is above three quarters
// of its limit.
func needsTrim(info *jetstream.StreamInfo) bool {
	_, made := info.Config.Metadata[ours]
	return made && info.Config.MaxBytes > 0 && aboveThreshold(info, info.Config.MaxBytes)
}

// aboveThreshold reports whether the stored messages take more than three quarters of a
// limit.
func aboveThreshold(info *jetstream.StreamInfo, limit int64) bool {
	return number(info.State.Bytes) > limit/4*3
}

// trim removes consumed messages, unless that is under way. It does nothing unless the
// commands are subscribed to: while a lost database is recovered, no subscription exists,
// and the recovery needs acked messages.
func (b *Broker) trim(s *session) {
	commands := b.consuming()
	if commands == nil || b.trimming.Load() || !b.term.Begin() {
		return
	}
	b.trimming.Store(true)
	go func() {
		defer b.term.Done()
		defer b.trimming.Store(false)
		ctx, stop := b.term.Until(s)
		defer stop()
		blocked, err := b.removeConsumed(ctx, s, commands.durable)
		if err != nil {
			blocked = obstacle{reason: err.Error()}
		}
		if blocked.reason != "" && ctx.Err() == nil {
			b.obstacles.Note(1, []any{"stream", b.opt.Stream, "because", blocked.reason}, blocked.attrs...)
		}
	}()
}

// An obstacle is a reason why messages can't be removed. Reason is empty if there is none.
type obstacle struct {
	reason string
	attrs  []any // current values, as attributes of a log line
}

// removeConsumed removes the oldest consumed messages until the stream is down to five
// eighths of its limit, or returns the obstacle. It removes commands before the
// events that followed from them: a recovery that found a command without its event would
// fire it again. Dead letters and messages on other subjects stay.
func (b *Broker) removeConsumed(ctx context.Context, s *session, role string) (blocked obstacle, err error) {
	stream, err := s.js.Stream(ctx, b.opt.Stream)
	if err != nil {
		return obstacle{}, err
	}
	info := stream.CachedInfo()
	was, goal := info.State.Bytes, uint64(info.Config.MaxBytes/8*5)
	if !needsTrim(info) {
		return obstacle{}, nil
	}
	consumed, blocked, err := b.consumed(ctx, s, stream, role)
	if err != nil {
		return obstacle{}, err
	}
	for info.State.Bytes > goal {
		first, err := b.firstOf(ctx, s, 1, b.removable()...)
		if err != nil {
			return obstacle{}, err
		}
		if first == 0 {
			blocked.reason = "dead letters, and messages on other subjects, fill it"
		}
		if first == 0 || first > consumed {
			break
		}
		share := float64(info.State.Bytes-goal) / float64(info.State.Bytes)
		upTo := min(first+uint64(share*float64(info.State.LastSeq-first)), first+trimStep, consumed)
		for _, subject := range b.removable() {
			request := jetstream.StreamPurgeRequest{Subject: subject, Sequence: upTo + 1}
			if err := b.ask(ctx, s, "STREAM.PURGE."+b.opt.Stream, request, new(struct{})); err != nil {
				return obstacle{}, err
			}
		}
		if info, err = stream.Info(ctx); err != nil {
			return obstacle{}, err
		}
	}
	if info.State.Bytes < was {
		b.log.InfoContext(ctx, "removed consumed messages: the stream was above three quarters of its limit",
			"stream", b.opt.Stream, "bytes", info.State.Bytes, "was", was, "max_bytes", info.Config.MaxBytes)
		b.keeper.Recheck() // the stream may have been full
	}
	if info.State.Bytes <= goal {
		blocked = obstacle{}
	}
	return blocked, nil
}

// removable returns the subjects of messages that may be removed once consumed, in the
// order of removal.
func (b *Broker) removable() []string {
	subjects := []string{b.opt.Routing.Subscription()}
	if b.opt.Routing.Receipts != "" {
		subjects = append(subjects, b.opt.Routing.ReceiptsOf("*"))
	}
	return append(subjects, b.opt.Routing.EventsOf("*"))
}

// consumed returns the sequence up to which all removable messages are consumed, and the
// reason why it is not higher: a consumer that has not acked a message, or a subject that
// no consumer reads.
func (b *Broker) consumed(ctx context.Context, s *session, stream jetstream.Stream, role string) (upTo uint64, blocked obstacle, err error) {
	upTo = b.needed()
	blocked = obstacle{"the database does not know yet that it has all messages", []any{"behind", upTo}}
	if last := stream.CachedInfo().State.LastSeq; last < upTo {
		upTo, blocked = last, obstacle{}
	}
	consumers, err := b.consumers(ctx, s)
	if err != nil {
		return 0, obstacle{}, err
	}
	if !slices.ContainsFunc(consumers, func(c *jetstream.ConsumerInfo) bool { return c.Name == role }) || len(consumers) < stream.CachedInfo().State.Consumers {
		return 0, obstacle{}, errors.New("not all consumers are known: a server may be away")
	}
	var subjects []string // of messages that may be removed
	for _, filter := range b.removable() {
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(filter))
		if err != nil {
			return 0, obstacle{}, err
		}
		subjects = slices.AppendSeq(subjects, maps.Keys(info.State.Subjects))
	}
	for _, c := range consumers {
		floor := c.AckFloor.Stream
		if floor > upTo || !slices.ContainsFunc(subjects, func(subject string) bool { return reads(c, subject) }) {
			continue
		}
		// The stream is asked, since the count of what is pending lags behind it: on a replica by any time.
		first, err := b.firstOf(ctx, s, floor+1, filters(c)...)
		if err != nil {
			return 0, obstacle{}, err
		}
		if first > 0 && first <= upTo+1 {
			upTo, blocked = first-1, obstacle{"consumer " + c.Name + " has not acked all messages", []any{"messages", c.NumPending + uint64(c.NumAckPending), "behind", floor}}
		}
	}
	unread := slices.DeleteFunc(subjects, func(subject string) bool {
		return slices.ContainsFunc(consumers, func(c *jetstream.ConsumerInfo) bool { return reads(c, subject) })
	})
	if len(unread) > maxUncovered { // too many to look up; the first removable message is never newer
		unread = b.removable()
	}
	first, err := b.firstOf(ctx, s, 1, unread...)
	if first > 0 && first <= upTo {
		upTo, blocked = first-1, obstacle{"no consumer reads " + slices.Min(unread) + ", so that nobody knows which messages were read", []any{"from", first}}
	}
	return upTo, blocked, err
}

// needed returns the sequence above which messages are needed: a start reads them.
func (b *Broker) needed() uint64 {
	b.stream.mu.Lock()
	defer b.stream.mu.Unlock()
	return b.stream.kept
}

// consumers returns the consumers of the stream.
func (b *Broker) consumers(ctx context.Context, s *session) (all []*jetstream.ConsumerInfo, err error) {
	for {
		var page struct{ Consumers []*jetstream.ConsumerInfo }
		request := struct {
			Offset int `json:"offset"`
		}{len(all)}
		err := b.ask(ctx, s, "CONSUMER.LIST."+b.opt.Stream, request, &page)
		if err != nil || len(page.Consumers) == 0 {
			return all, err
		}
		all = append(all, page.Consumers...)
	}
}

// filters returns the subjects that a consumer reads.
func filters(c *jetstream.ConsumerInfo) []string {
	if len(c.Config.FilterSubjects) > 0 {
		return c.Config.FilterSubjects
	}
	return []string{cmp.Or(c.Config.FilterSubject, ">")}
}

// reads reports whether a consumer reads a subject.
func reads(c *jetstream.ConsumerInfo, subject string) bool { return covered(filters(c), subject) }

// firstOf returns the sequence of the first message on any of the subjects, from a sequence on.
// It is 0 if there is none.
func (b *Broker) firstOf(ctx context.Context, s *session, from uint64, subjects ...string) (first uint64, err error) {
	for _, subject := range subjects {
		m, err := b.get(ctx, s, b.opt.Stream, getRequest{Sequence: from, Filter: subject})
		if err != nil {
			return 0, err
		}
		if m.Sequence > 0 && (first == 0 || m.Sequence < first) {
			first = m.Sequence
		}
	}
	return first, nil
}
