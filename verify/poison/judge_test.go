package poison_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// A storedMessage is a message of the stream.
type storedMessage struct {
	subject string
	header  map[string][]string
	body    []byte
	at      time.Time
}

// A key is that of a timer.
type key struct{ tenant, call string }

// A judge compares what the stream holds with what was sent.
type judge struct {
	*world
	commands    map[uint64]storedMessage
	deadLetters map[uint64][]storedMessage // by the position of the original
	events      map[key][]storedMessage
	seen        map[string]int // fates and reasons, for the report
	latest      time.Duration  // lateness of the latest event
	why         string         // it was that late
	wrong       map[string]int // kinds of messages that fared otherwise
}

// read reads the whole stream.
func (w *world) read() *judge {
	j := &judge{
		world: w, commands: make(map[uint64]storedMessage), deadLetters: make(map[uint64][]storedMessage), events: make(map[key][]storedMessage),
		seen: make(map[string]int), wrong: make(map[string]int),
	}
	s, err := w.js.Stream(w.Context(), stream)
	harness.Must(w, err)
	state := s.CachedInfo().State
	if state.FirstSeq != 1 || state.NumDeleted != 0 || state.Msgs != state.LastSeq {
		w.Errorf("messages are gone from the stream: %+v", state)
	}
	c, err := s.OrderedConsumer(w.Context(), jetstream.OrderedConsumerConfig{})
	harness.Must(w, err)
	messages, err := c.Messages(jetstream.PullMaxBytes(32 << 20))
	harness.Must(w, err)
	defer messages.Stop()
	for n := uint64(0); n < state.LastSeq; n++ {
		m, err := messages.Next(jetstream.NextMaxWait(30 * time.Second))
		if err != nil {
			w.Fatalf("read message %d of %d: %v", n+1, state.LastSeq, err)
		}
		meta, err := m.Metadata()
		harness.Must(w, err)
		j.sort(meta.Sequence.Stream, storedMessage{subject: m.Subject(), header: m.Headers(), body: m.Data(), at: meta.Timestamp})
	}
	return j
}

// sort puts a message where it belongs.
func (j *judge) sort(seq uint64, m storedMessage) {
	tokens := strings.Split(m.subject, ".")
	switch {
	case m.subject == commandsTopic || len(tokens) == 3 && tokens[2] == "timer":
		j.commands[seq] = m
	case len(tokens) == 3 && tokens[2] == "dlq":
		position, err := strconv.ParseUint(m.get("deadLetterPosition"), 10, 64)
		if err != nil {
			j.Errorf("a dead letter without its original's position: %v", m.header)
		}
		j.deadLetters[position] = append(j.deadLetters[position], m)
	case len(tokens) == 3 && tokens[2] == "serviceCall":
		e, err := j.event(m)
		if err != nil {
			j.Errorf("on %s: %v: %.300q %v", m.subject, err, m.body, m.header)
			return
		}
		k := key{string(e.TenantID), string(e.ServiceCallID)}
		j.events[k] = append(j.events[k], m)
	default:
		j.Errorf("something came to %.200q: %.200q", m.subject, m.body)
	}
}

func (m storedMessage) get(name string) string {
	if len(m.header[name]) != 1 {
		return ""
	}
	return m.header[name][0]
}

// event reads an event as a consumer does, and holds its header against it.
func (j *judge) event(m storedMessage) (timer.DueTimeReached, error) {
	decoded, err := envelope.Decode(m.body)
	if err != nil {
		return timer.DueTimeReached{}, err
	}
	e, ok := decoded.Payload.(timer.DueTimeReached)
	if !ok || m.subject != "svc."+string(e.TenantID)+".serviceCall" {
		return e, fmt.Errorf("no event of this tenant: %+v", decoded)
	}
	want := map[string]string{
		"type": "DueTimeReached", "tenantId": string(e.TenantID), "serviceCallId": string(e.ServiceCallID), "messageId": e.ID,
		"correlationId": e.CorrelationID, "traceparent": m.get("traceparent"), "tracestate": m.get("tracestate"),
		"Nats-Msg-Id": e.ID,
	}
	return e, m.has(want)
}

// has compares the header of a message. A name with an empty value must not be there.
func (m storedMessage) has(want map[string]string) error {
	if len(m.header["Nats-Msg-Id"]) == 0 {
		delete(want, "Nats-Msg-Id")
	}
	for name, value := range want {
		if m.get(name) != value {
			return fmt.Errorf("header %s is %.200q, want %.200q", name, m.header[name], value)
		}
	}
	for name := range m.header {
		if want[name] == "" && !strings.HasPrefix(name, "Nats-Batch-") { // the broker keeps how it was published
			return fmt.Errorf("a header %.200q that no command had", name)
		}
	}
	return nil
}

// check compares what became of a message with what must become of it.
func (j *judge) check(v *volley) error {
	name := [...]string{"dead letter", "ignored", "fires"}[v.want.fate] + " " + v.want.reason
	if v.at.IsZero() || v.Error.Description != "" {
		if !v.refusable {
			return fmt.Errorf("the broker refuses it: %q", v.Error.Description)
		}
		j.seen["refused by the broker"]++
		return nil
	}
	if v.Duplicate {
		return fmt.Errorf("the broker takes it for a repetition of %d", v.Seq)
	}
	original, kept := j.commands[v.Seq]
	if !kept || !bytes.Equal(original.body, v.body) || original.subject != v.subject {
		return fmt.Errorf("the broker does not keep it at %d", v.Seq)
	}
	j.seen[name]++
	deadLetters := j.deadLetters[v.Seq]
	delete(j.deadLetters, v.Seq)
	if v.want.fate == deadLettered {
		return checkDeadLetter(v, original, deadLetters)
	}
	if len(deadLetters) > 0 {
		return fmt.Errorf("it became a dead letter: %v", deadLetters[0].header)
	}
	if v.want.fate != fires {
		return nil
	}
	k := key{v.want.tenant, v.want.call}
	events := j.events[k]
	delete(j.events, k)
	return j.checkEvent(v, original, events)
}

func checkDeadLetter(v *volley, original storedMessage, deadLetters []storedMessage) error {
	if len(deadLetters) != 1 {
		return fmt.Errorf("it became %d dead letters", len(deadLetters))
	}
	l := deadLetters[0]
	if want := "svc." + v.want.tenant + ".dlq"; l.subject != want {
		return fmt.Errorf("its dead letter went to %s, want %s (%v)", l.subject, want, l.header)
	}
	if !bytes.Equal(l.body, v.body) {
		return fmt.Errorf("its dead letter has another body, %.200q", l.body)
	}
	detail, id := l.get("deadLetterDetail"), l.get("messageId")
	if detail == "" || len(detail) > 512 || strings.ContainsFunc(detail, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("the detail of its dead letter is %q", detail)
	}
	if at, err := time.Parse(time.RFC3339, l.get("deadLetterFirstAt")); err != nil || at.Sub(l.at).Abs() > time.Minute {
		return fmt.Errorf("its dead letter of %v is of %v, %w", l.at, at, err)
	}
	first := func(name string) string {
		if values := original.header[name]; len(values) > 0 {
			return values[0]
		}
		return ""
	}
	origin := envelope.OriginOf(v.body)
	return l.has(map[string]string{
		"correlationId": cmp.Or(origin.CorrelationID, envelope.CorrelationFrom(first)),
		"type":          "DeadLetter", "tenantId": v.want.tenant, "messageId": id, "Nats-Msg-Id": id,
		"deadLetterReason": v.want.reason, "deadLetterDetail": detail, "deadLetterTopic": visible(v.subject), "deadLetterPosition": fmt.Sprint(v.Seq),
		"deadLetterOriginalId": cmp.Or(origin.ID, visible(cmp.Or(first("Nats-Msg-Id"), first("_watermill_message_uuid"), first("messageId")))), "deadLetterFirstAt": l.get("deadLetterFirstAt"), "deadLetterLastAt": l.get("deadLetterFirstAt"),
		"deadLetterCount": fmt.Sprint(v.want.replays + 1), "deadLetterReplays": fmt.Sprint(v.want.replays),
	})
}

// visible returns what a header shows of a topic.
func visible(topic string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, topic[:min(len(topic), 512)])
}

func (j *judge) checkEvent(v *volley, command storedMessage, events []storedMessage) error {
	if len(events) != 1 {
		return fmt.Errorf("it fired %d times", len(events))
	}
	e, err := j.event(events[0])
	switch {
	case err != nil:
		return err
	case !e.DueAt.Equal(v.want.dueAt) || e.CorrelationID != v.want.correlation || events[0].get("traceparent") != v.want.trace:
		return fmt.Errorf("its event is %+v with the trace %q, want %+v", e, events[0].get("traceparent"), v.want)
	case e.ReachedAt.Before(e.DueAt) || events[0].at.Before(e.DueAt):
		return fmt.Errorf("it fired early: %+v", e)
	}
	from := e.DueAt
	if command.at.After(from) {
		from = command.at
	}
	if late := events[0].at.Sub(from); late > j.latest {
		j.latest, j.why = late, fmt.Sprintf("%s of %v: stored %v, due %v, reached %v later, published %v after that",
			v.kind, e.Key, command.at.Format(time.StampMicro), e.DueAt.Format(time.StampMicro), e.ReachedAt.Sub(from), events[0].at.Sub(e.ReachedAt))
	}
	return nil
}

// rest complains of what came of nothing.
func (j *judge) rest() {
	for k, events := range j.events {
		j.Errorf("an event of %v, for which there is no command: %s", k, events[0].body)
	}
	for position, deadLetters := range j.deadLetters {
		j.Errorf("a dead letter of %d that should not be: %.200q %v", position, deadLetters[0].body, deadLetters[0].header)
	}
}

// report logs counts.
func (j *judge) report(kinds map[string]int) {
	var s strings.Builder
	for _, counts := range []map[string]int{kinds, j.seen} {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&s, "%7d  %s\n", counts[name], name)
		}
		s.WriteString("\n")
	}
	j.Log("messages by kind and by fate:\n" + s.String())
}
