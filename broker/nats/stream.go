package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// minDuplicates is how long the stream must know the ids of messages.
const minDuplicates = 2 * time.Minute

var (
	// errUnfit says that the stream can't be used as it is configured.
	errUnfit = errors.New("unfit stream")
	// errRemade says that the numbers of messages are those of a stream that is gone. What
	// it held is lost, so the process ends, and its next start begins with the new stream.
	errRemade = fmt.Errorf("%w: it was deleted and made again while it was in use, so that this process has to start again", errUnfit)
)

// deleteTime is how long the server gets to delete a stream before it is made
// again. If both happen at once the new stream never answers a publish
// (nats-server v2.15.2).
const deleteTime = 2 * time.Second

// provision makes sure that the stream exists and is fit. An error that wraps errUnfit
// needs an operator; others are retried.
func (b *Broker) provision(ctx context.Context, s *session) error {
	if b.opt.Client {
		if b.batching() { // a client without the permission to ask publishes without batches
			info, err := b.lookUpStream(ctx, s)
			s.batches.Store(err == nil && info.Config.AllowAtomicPublish)
		}
		return nil
	}
	if err := modern(s.conn.ConnectedServerVersion()); err != nil {
		return err
	}
	if most := s.conn.MaxPayload(); most < largestEvent {
		return fmt.Errorf("%w: the server takes messages of %d bytes, so that not every event can be published: set its max_payload to at least %d", errUnfit, most, largestEvent)
	}
	info, err := b.lookUpStream(ctx, s)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		switch {
		case b.opt.Verify:
			err = errMissing
		case !b.begun || pause.For(ctx, deleteTime):
			info, err = b.create(ctx, s)
		}
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", b.opt.Stream, err)
	}
	if err := b.verify(info); err != nil {
		return err
	}
	if !b.begun {
		b.begun = true
		b.applyLimits(ctx, s, &info.StreamInfo)
	}
	s.batches.Store(info.Config.AllowAtomicPublish && b.batching())
	b.noteUse(&info.StreamInfo)
	is := full(b.limits(ctx, s, info))
	if was := b.full.Swap(is); was != nil && is == nil {
		b.refusing.Store(nil)
	}
	if needsTrim(&info.StreamInfo) {
		b.trim(s)
	}
	return nil
}

// lookUpStream returns the stream as the server describes it. An older server leaves out
// settings that it does not know. The error is errRemade unless it is the stream that this
// process found first.
func (b *Broker) lookUpStream(ctx context.Context, s *session) (*streamInfo, error) {
	var info streamInfo
	err := b.ask(ctx, s, "STREAM.INFO."+b.opt.Stream, struct{}{}, &info)
	if err == nil && !b.stream.identify(info.Created) {
		err = errRemade
	}
	return &info, err
}

// A streamInfo is a stream as the server describes it.
type streamInfo struct {
	jetstream.StreamInfo
	unknown []string // settings in force that the client library does not know
}

// UnmarshalJSON decodes the server's answer, and finds the settings that the client library
// would drop.
func (i *streamInfo) UnmarshalJSON(body []byte) error {
	var set struct {
		Config map[string]json.RawMessage `json:"config"`
	}
	if err := errors.Join(json.Unmarshal(body, &i.StreamInfo), json.Unmarshal(body, &set)); err != nil {
		return err
	}
	off := []string{"null", "false", "0", "-1", `""`, "{}", "[]"} // -1 is no limit
	for name, value := range set.Config {
		d := json.NewDecoder(strings.NewReader(`{"` + name + `":` + string(value) + `}`))
		d.DisallowUnknownFields()
		if d.Decode(new(jetstream.StreamConfig)) != nil && !slices.Contains(off, string(value)) {
			i.unknown = append(i.unknown, name)
		}
	}
	slices.Sort(i.unknown)
	return nil
}

// verify returns an error that wraps errUnfit if the stream could lose messages, or has
// settings of which that is not known.
func (b *Broker) verify(info *streamInfo) error {
	if len(info.unknown) > 0 {
		return fmt.Errorf("%w: stream %s: this version does not know whether %s is safe; take it out of the configuration of the stream",
			errUnfit, b.opt.Stream, strings.Join(info.unknown, ", "))
	}
	if err := verify(info.Config, b.opt.Routing, b.opt.MinAge); err != nil {
		return fmt.Errorf("%w: %w", errUnfit, err)
	}
	return nil
}

// streamConfig returns the configuration for creating the stream.
func (b *Broker) streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:               b.opt.Stream,
		Description:        "Timers: commands, events and dead letters",
		Subjects:           subjects(b.opt.Routing),
		Retention:          jetstream.LimitsPolicy,
		Storage:            jetstream.FileStorage,
		Discard:            jetstream.DiscardNew,
		MaxBytes:           b.maxBytes(),
		MaxAge:             b.opt.MaxAge,
		Duplicates:         minDuplicates,
		AllowAtomicPublish: true,
		AllowDirect:        true,
		Metadata:           map[string]string{ours: "its limits are set by the service"},
	}
}

// create creates the stream, and looks it up. A server that does not know atomic batches
// (before 2.12) creates it without them.
func (b *Broker) create(ctx context.Context, s *session) (*streamInfo, error) {
	err := b.ask(ctx, s, "STREAM.CREATE."+b.opt.Stream, b.streamConfig(), new(struct{}))
	if err == nil || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another instance was faster
		return b.lookUpStream(ctx, s)
	}
	api, refused := errors.AsType[*jetstream.APIError](err)
	switch {
	case !refused:
	case api.ErrorCode == codeSubjectOverlap, api.ErrorCode == codeInvalidConfig:
		err = fmt.Errorf("%w: %w; name the stream that holds the subjects %s, or choose other topics",
			errUnfit, err, strings.Join(subjects(b.opt.Routing), ", "))
	case slices.Contains(noSpace, api.ErrorCode):
		err = fmt.Errorf("%w: the server has no space for a stream of %d bytes: set nats_max_bytes to less, or give it more (max_file_store)", err, b.maxBytes())
	}
	return nil, err
}

// Codes of JetStream errors for which the client library has no names.
const (
	codeInvalidConfig  = 10052 // the configuration makes no sense to the server
	codeSubjectOverlap = 10065 // another stream has one of the subjects
)

// noSpace are the error codes for a stream that exceeds a limit of the server or the
// account, by its size or as one too many.
var noSpace = []jetstream.ErrorCode{10002, 10023, 10027, 10047, 10113, 10122}

// maxBytes returns the size limit of the stream. For an embedded server it is at most the
// space on disk: a full disk stops a stream until the server restarts, while a full
// stream only returns an error.
func (b *Broker) maxBytes() int64 {
	if b.opt.Server == nil {
		return b.opt.MaxBytes
	}
	return min(b.opt.MaxBytes, b.opt.Server.Capacity())
}

// verify returns an error that names the setting, and the fix, if messages
// could be lost silently in a stream, or can't get into it.
func verify(c jetstream.StreamConfig, r broker.Routing, minAge time.Duration) error {
	limited := c.MaxBytes > 0 || c.MaxMsgs > 0 || c.MaxMsgsPerSubject > 0
	for _, check := range []struct {
		bad       bool
		text, fix string
	}{
		{c.Retention != jetstream.LimitsPolicy, fmt.Sprintf("retention is %v, which removes messages that others still need", c.Retention), "limits"},
		{c.Storage != jetstream.FileStorage, "storage is memory, which loses messages at a restart", "file"},
		{c.Discard == jetstream.DiscardOld && limited, "discard is old with a limit, which drops messages that were not consumed yet", "new, or no limits"},
		{c.MaxMsgsPerSubject > 0, "max_msgs_per_subject drops older messages of a tenant, or takes no newer ones", "no such limit"},
		{c.MaxMsgSize > 0 && c.MaxMsgSize < largestEvent, fmt.Sprintf("max_msg_size is %d, so that not every event can be published", c.MaxMsgSize), fmt.Sprintf("at least %d, or no limit", largestEvent)},
		{c.MaxAge > 0 && c.MaxAge < minAge, fmt.Sprintf("max_age is %v, which drops messages that were not consumed in time", c.MaxAge), "at least " + minAge.String()},
		{c.Duplicates < minDuplicates, fmt.Sprintf("duplicate_window is %v, too short to drop repeated messages", c.Duplicates), "at least " + minDuplicates.String()},
		{c.AllowMsgTTL, "allow_msg_ttl lets any producer have its commands dropped before they are read", "false"},
		{c.AllowMsgCounter, "allow_msg_counter takes no messages with a body", "false"},
		{c.AllowRollup, "allow_rollup_hdrs lets any producer purge the stream", "false"},
		{c.PersistMode == jetstream.AsyncPersistMode, "persist_mode is async, which acks before messages are durable", "default"},
		{c.AllowMsgSchedules, "allow_msg_schedules lets a producer of commands publish to every subject", "false"},
		{c.SubjectTransform != nil, "subject_transform moves messages to other subjects", "none"},
		{c.Mirror != nil, "it is a mirror, so nothing can be published", "another stream"},
		{c.NoAck, "no_ack is set, so nobody learns which messages were stored", "false"},
		{c.Sealed, "it is sealed, so nothing can be published", "another stream"},
	} {
		if check.bad {
			return fmt.Errorf("stream %s: %s; set it to: %s", c.Name, check.text, check.fix)
		}
	}
	for _, p := range patterns(r) {
		if !covered(c.Subjects, p) {
			return fmt.Errorf("stream %s: subjects %s do not cover %s; add it", c.Name, strings.Join(c.Subjects, ", "), p)
		}
	}
	return nil
}

// patterns returns the subjects of a routing, with a wildcard for the tenant.
func patterns(r broker.Routing) []string {
	all := []string{r.Subscription(), r.EventsOf("*"), r.DeadLettersOf("*")}
	if r.Receipts != "" {
		all = append(all, r.ReceiptsOf("*"))
	}
	return all
}

// subjects returns the subjects for creating a stream for a routing. For a topic that
// holds a tenant it is all that begins like the topic; other topics stand for themselves.
func subjects(r broker.Routing) (all []string) {
	for _, p := range patterns(r) {
		if before, _, found := strings.Cut(p, ".*."); found && !strings.Contains(before, "*") {
			p = before + ".>"
		}
		if !covered(all, p) {
			all = slices.DeleteFunc(all, func(s string) bool { return covers(p, s) })
			all = append(all, p)
		}
	}
	return all
}

func covered(filters []string, subject string) bool {
	return slices.ContainsFunc(filters, func(f string) bool { return covers(f, subject) })
}

// covers reports whether a filter matches everything that a subject matches. The subject
// may hold wildcards, too.
func covers(filter, subject string) bool {
	fs, ss := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, f := range fs {
		switch {
		case f == ">":
			return len(ss) > i
		case i >= len(ss) || ss[i] == ">":
			return false
		case f != "*" && f != ss[i]:
			return false
		}
	}
	return len(fs) == len(ss)
}
