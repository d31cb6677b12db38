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
	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// judge holds messages of the service against the ones that were sent: by the rules of package
// history, and by the headers that each must have.
func (w *world) judge(shots []*shot, messages []history.Message) history.Verdict {
	w.Helper()
	h := history.History{Messages: messages}
	byBody, byKey := make(map[string]*shot), make(map[history.Key]*shot)
	kinds := make(map[string]int)
	for _, s := range shots {
		if !s.Acked && !s.refusable {
			w.Errorf("the broker does not keep %s: %.300q %.200q", s.Note, s.Body, s.header)
		}
		if s.Acked {
			h.Sent = append(h.Sent, s.Sent)
		}
		if byBody[string(s.Body)] = s; s.Kind == history.Schedule {
			byKey[s.Key] = s
		}
		kinds[fmt.Sprintf("%s, %s %s", s.Note, s.Kind, s.reason)]++
	}
	v := history.Check(h)
	for _, f := range v.Findings {
		if f.Count > 0 {
			w.Errorf("%d %s, such as: %.500s", f.Count, f.Rule, f.Example)
		}
	}
	wrong := make(map[string]int) // by kind, of which the first two are shown
	for _, m := range messages {
		s := byKey[history.Key{Tenant: m.Header["tenantId"], Call: m.Header["serviceCallId"]}]
		if m.Header["type"] == "DeadLetter" {
			s = byBody[string(m.Body)]
		}
		if s == nil {
			continue // it is invented, which the verdict says
		}
		if err := s.check(m); err != nil {
			if wrong[s.Note]++; wrong[s.Note] <= 2 {
				w.Errorf("%s: %v\nheader %.200q\nbody %.300q", s.Note, err, s.header, s.Body)
			}
		}
	}
	var report strings.Builder
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&report, "%7d  %s\n", kinds[name], name)
	}
	w.Logf("messages by kind and fate:\n%s%d timers fired, %d of %d poison messages dead-lettered, the latest event %v ms late", &report, v.Fired, v.DeadLettered, v.Poison, v.Overall.MaxMS)
	return v
}

// check compares the header of a message that the service made of the shot with what it must be. Nothing but
// correlation and trace of a command crosses over to an event.
func (s *shot) check(m history.Message) error {
	if s.Kind == history.Schedule {
		for name := range m.Header {
			if !slices.Contains([]string{"type", "tenantId", "serviceCallId", "messageId", "correlationId", "traceparent", "tracestate", history.DedupeHeader}, name) {
				return fmt.Errorf("its event has a header %.200q", name)
			}
		}
		if m.Header["traceparent"] != s.trace {
			return fmt.Errorf("its event has the trace %q, want %q", m.Header["traceparent"], s.trace)
		}
		return nil
	}
	if m.Header[history.ReasonHeader] != s.reason || m.Header["deadLetterReplays"] != fmt.Sprint(s.replays) {
		return fmt.Errorf("its dead letter is %v, want the reason %s and %d replays", m.Header, s.reason, s.replays)
	}
	detail := m.Header["deadLetterDetail"]
	if detail == "" || len(detail) > 512 || visible(detail) != detail {
		return fmt.Errorf("the detail of its dead letter is %q", detail)
	}
	if at, err := time.Parse(time.RFC3339, m.Header["deadLetterFirstAt"]); err != nil || at.Sub(m.At).Abs() > time.Minute {
		return fmt.Errorf("its dead letter of %v is of %v, %w", m.At, at, err)
	}
	return nil
}

// visible returns what a header shows of a text.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), 512)])
}

// A storedCommand is one that the stream of NATS keeps, as it came.
type storedCommand struct {
	*shot
	header map[string][]string
}

// readStream reads the whole stream of NATS. It notes where commands are kept, and returns the other
// messages, of which it compares the headers of dead letters with their originals.
func (w *world) readStream(shots []*shot) (messages []history.Message) {
	w.Helper()
	sent := make(map[string][]*shot) // by subject and body
	for _, s := range shots {
		key := s.subject + " " + string(s.Body)
		sent[key] = append(sent[key], s)
	}
	s, err := w.js.Stream(w.Context(), stream)
	harness.Must(w, err)
	state := s.CachedInfo().State
	if state.FirstSeq != 1 || state.NumDeleted != 0 || state.Msgs != state.LastSeq {
		w.Errorf("messages are gone from the stream: %+v", state)
	}
	c, err := s.OrderedConsumer(w.Context(), jetstream.OrderedConsumerConfig{})
	harness.Must(w, err)
	reading, err := c.Messages(jetstream.PullMaxBytes(32 << 20))
	harness.Must(w, err)
	defer reading.Stop()
	commands, letters := make(map[uint64]storedCommand), make(map[uint64]int)
	for n := uint64(0); n < state.LastSeq; n++ {
		m, err := reading.Next(jetstream.NextMaxWait(30 * time.Second))
		if err != nil {
			w.Fatalf("read message %d of %d: %v", n+1, state.LastSeq, err)
		}
		meta, err := m.Metadata()
		harness.Must(w, err)
		seq := meta.Sequence.Stream
		if m.Subject() == commandsTopic || strings.HasSuffix(m.Subject(), ".timer") {
			key := m.Subject() + " " + string(m.Data())
			if len(sent[key]) == 0 {
				w.Errorf("a command at %d that was not sent: %.300q", seq, m.Data())
				continue
			}
			original := sent[key][0]
			sent[key] = sent[key][1:]
			original.Acked, original.Seq = true, seq
			commands[seq] = storedCommand{original, m.Headers()}
			continue
		}
		made := history.Message{Topic: m.Subject(), Seq: seq, At: meta.Timestamp, Header: make(map[string]string), Body: m.Data()}
		// A batch has no id for the broker, nor has an event whose id a hostile message took.
		made.Header[history.DedupeHeader] = m.Headers().Get("messageId")
		for name, values := range m.Headers() {
			if !strings.HasPrefix(name, "Nats-Batch-") {
				made.Header[name] = strings.Join(values, ", ")
			}
		}
		messages = append(messages, made)
		if made.Header["type"] != "DeadLetter" {
			continue
		}
		position, err := strconv.ParseUint(made.Header["deadLetterPosition"], 10, 64)
		original, kept := commands[position]
		if letters[position]++; err != nil || !kept || letters[position] > 1 {
			w.Errorf("a dead letter of nothing, or the %dth of one: %v", letters[position], made.Header)
		} else if err := original.checkDeadLetter(made); err != nil {
			w.Errorf("%s: %v\nheader %.200q\nbody %.300q", original.Note, err, original.header, original.Body)
		}
	}
	return messages
}

// checkDeadLetter compares the header of a dead letter with its original: nothing is there that
// was not there.
func (c storedCommand) checkDeadLetter(m history.Message) error {
	first := func(name string) string {
		if values := c.header[name]; len(values) > 0 {
			return values[0]
		}
		return ""
	}
	origin := envelope.OriginOf(c.Body)
	tenant := strings.TrimSuffix(strings.TrimPrefix(m.Topic, "svc."), ".dlq")
	want := map[string]string{
		"correlationId": cmp.Or(origin.CorrelationID, envelope.CorrelationFrom(first)),
		"type":          "DeadLetter", "tenantId": tenant, "messageId": m.Header["messageId"], history.DedupeHeader: m.Header["messageId"],
		"deadLetterReason": c.reason, "deadLetterDetail": m.Header["deadLetterDetail"], "deadLetterTopic": visible(c.subject),
		"deadLetterPosition":   fmt.Sprint(c.Seq),
		"deadLetterOriginalId": cmp.Or(origin.ID, visible(cmp.Or(first(history.DedupeHeader), first("_watermill_message_uuid"), first("messageId")))),
		"deadLetterFirstAt":    m.Header["deadLetterFirstAt"], "deadLetterLastAt": m.Header["deadLetterFirstAt"],
		"deadLetterCount": fmt.Sprint(c.replays + 1), "deadLetterReplays": fmt.Sprint(c.replays),
	}
	maps.DeleteFunc(want, func(_, value string) bool { return value == "" })
	if !maps.Equal(m.Header, want) {
		return fmt.Errorf("the header of its dead letter is %v, want %v", m.Header, want)
	}
	if !bytes.Equal(m.Body, c.Body) {
		return fmt.Errorf("its dead letter has another body, %.200q", m.Body)
	}
	return nil
}
