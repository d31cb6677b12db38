package history

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"
	"time"
)

// epoch is when every story begins; all its times are milliseconds from here.
var epoch = time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

// A story builds a history. The broker numbers what it receives.
type story struct {
	History
	seq uint64
}

const tenant = "acme"

// schedule sends a ScheduleTimer at a time, of this version, and has it
// confirmed. The correlation id is "cor-" and the command's id.
func (s *story) schedule(call string, sent int, id string, due int) *Sent {
	return s.send(Sent{
		Command: Command{
			Kind: Schedule, Key: Key{tenant, call}, Version: Version{epoch.UnixMilli() + int64(sent), id},
			DueAt: at(due), Correlation: "cor-" + id, Body: []byte("schedule " + call + " " + id),
		},
		SentAt: at(sent), Acked: true,
	})
}

func (s *story) cancel(call string, sent int, id string) *Sent {
	return s.send(Sent{
		Command: Command{
			Kind: Cancel, Key: Key{tenant, call}, Version: Version{epoch.UnixMilli() + int64(sent), id},
			Body: []byte("cancel " + call + " " + id),
		},
		SentAt: at(sent), Acked: true,
	})
}

func (s *story) poison(body string) *Sent {
	return s.send(Sent{
		Command: Command{Kind: Poison, Body: []byte(body), DeadLetterTopics: []string{DeadLettersTopic(tenant)}},
		Acked:   true,
	})
}

func (s *story) foreign(body string) *Sent {
	return s.send(Sent{Command: Command{Kind: Foreign, Body: []byte(body)}, Acked: true})
}

func (s *story) send(c Sent) *Sent {
	s.seq++
	c.Seq = s.seq
	s.Sent = append(s.Sent, c)
	return &s.Sent[len(s.Sent)-1]
}

// accept has the service ack a command.
func (s *story) accept(c *Sent, ms int) {
	if s.Accepted == nil {
		s.Accepted = make(map[uint64]time.Time)
	}
	s.Accepted[c.Seq] = at(ms)
}

// reached publishes the event of a command. Edit changes what it is made of.
func (s *story) reached(c *Sent, ms int, edit ...func(*eventDraft)) *Message {
	f := eventDraft{
		topic: EventsTopic(c.Tenant), id: eventID(c.ID, c.DueAt), tenant: c.Tenant, call: c.Call,
		dueAt: c.DueAt, reachedAt: at(ms), at: at(ms), correlation: c.Correlation, kind: "DueTimeReached",
	}
	for _, change := range edit {
		change(&f)
	}
	s.seq++
	s.Messages = append(s.Messages, f.message(s.seq))
	return &s.Messages[len(s.Messages)-1]
}

func (s *story) deadLetter(body, topic, reason string) {
	s.seq++
	s.Messages = append(s.Messages, Message{
		Topic: topic, Seq: s.seq, At: at(0), Body: []byte(body), Header: map[string]string{ReasonHeader: reason},
	})
}

// An eventDraft is an event in the making.
type eventDraft struct {
	topic, kind, id, tenant, call, correlation, extra string
	dueAt, reachedAt, at                              time.Time
}

func (f eventDraft) message(seq uint64) Message {
	body := fmt.Sprintf(`{"id":%q,"type":%q,"tenantId":%q,"aggregateId":%q,"timestampMs":%d,"correlationId":%q,%s`+
		`"payload":{"tenantId":%q,"serviceCallId":%q,"dueAt":%q,"reachedAt":%q}}`,
		f.id, f.kind, f.tenant, f.call, f.reachedAt.UnixMilli(), f.correlation, f.extra,
		f.tenant, f.call, f.dueAt.Format(timeFormat), f.reachedAt.Format(timeFormat))
	return Message{
		Topic: f.topic, Seq: seq, At: f.at, Body: []byte(body),
		Header: map[string]string{
			"type": f.kind, "tenantId": f.tenant, "serviceCallId": f.call, "messageId": f.id,
			"correlationId": f.correlation, "Nats-Msg-Id": f.id,
		},
	}
}

// eventID returns a UUID of version 7 with the due time in it, and the rest
// made of a seed.
func eventID(seed string, dueAt time.Time) string {
	sum := sha256.Sum256([]byte(seed))
	id := sum[:16]
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(dueAt.UnixMilli())<<16)
	copy(id, ms[:6])
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// wantFindings fails unless exactly these rules were broken, so often.
func wantFindings(t *testing.T, v Verdict, want map[Rule]int) {
	t.Helper()
	for _, f := range v.Findings {
		if f.Count != want[f.Rule] {
			t.Errorf("%s: got %d, want %d: %s", f.Rule, f.Count, want[f.Rule], f.Example)
		}
	}
}
