package history

import (
	"strings"
	"testing"
)

func TestCatchesEveryViolation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		write func(*story)
		want  map[Rule]int
	}{
		{"a timer without an event", func(s *story) {
			s.schedule("sc", 0, "a", 100)
		}, map[Rule]int{Lost: 1}},
		{"a timer without an event though the service acked it", func(s *story) {
			s.accept(s.schedule("sc", 0, "a", 100), 5)
		}, map[Rule]int{Lost: 1}},
		{"a timer scheduled again after it was canceled, without an event", func(s *story) {
			s.schedule("sc", 0, "a", 100)
			s.cancel("sc", 10, "b")
			s.schedule("sc", 20, "c", 100)
		}, map[Rule]int{Lost: 1}},
		{"a timer whose cancellation is older", func(s *story) {
			s.schedule("sc", 20, "a", 100)
			s.cancel("sc", 10, "b")
		}, map[Rule]int{Lost: 1}},
		{"a timer whose cancellation has the same time and a smaller id", func(s *story) {
			s.schedule("sc", 10, "b", 100)
			s.cancel("sc", 10, "a")
		}, map[Rule]int{Lost: 1}},
		{"a timer rescheduled by a command that was never confirmed, without an event", func(s *story) {
			s.schedule("sc", 0, "a", 100)
			s.schedule("sc", 10, "b", 200).Acked = false
		}, map[Rule]int{Lost: 1}},
		{"an event that says it is early", func(s *story) {
			s.reached(s.schedule("sc", 0, "a", 100), 110, func(f *eventDraft) { f.reachedAt = at(99) })
		}, map[Rule]int{Early: 1}},
		{"an event that arrives early", func(s *story) {
			s.reached(s.schedule("sc", 0, "a", 100), 100, func(f *eventDraft) { f.at = at(99) })
		}, map[Rule]int{Early: 1, Malformed: 1}},
		{"an event that comes twice", func(s *story) {
			c := s.schedule("sc", 0, "a", 100)
			s.reached(c, 110)
			s.reached(c, 120)
		}, map[Rule]int{Duplicate: 1}},
		{"an event that comes twice with other contents", func(s *story) {
			c := s.schedule("sc", 0, "a", 100)
			s.reached(c, 110)
			s.reached(c, 120, func(f *eventDraft) { f.extra = `"x":1,` })
		}, map[Rule]int{Duplicate: 1, Changed: 1}},
		{"an event that comes again under another id", func(s *story) {
			c := s.schedule("sc", 0, "a", 100)
			s.reached(c, 110)
			s.reached(c, 120, func(f *eventDraft) { f.id = eventID("b", c.DueAt) })
		}, map[Rule]int{SecondID: 1}},
		{"two timers with one event id", func(s *story) {
			a, b := *s.schedule("sc-1", 0, "a", 100), *s.schedule("sc-2", 0, "b", 100)
			s.reached(&a, 110)
			s.reached(&b, 110, func(f *eventDraft) { f.id = eventID("a", a.DueAt) })
		}, map[Rule]int{SharedID: 1}},
		{"an event for a key of no command", func(s *story) {
			c := *s.schedule("sc", 0, "a", 100)
			s.reached(&c, 110)
			c.Call = "other"
			s.reached(&c, 110)
		}, map[Rule]int{Invented: 1}},
		{"an event for a key that was only canceled", func(s *story) {
			c := *s.cancel("sc", 0, "a")
			c.DueAt = at(100)
			s.reached(&c, 110)
		}, map[Rule]int{Invented: 1}},
		{"an event with a due time of no command", func(s *story) {
			c := *s.schedule("sc", 0, "a", 100)
			c.DueAt = at(101)
			s.reached(&c, 110)
		}, map[Rule]int{Invented: 1, Lost: 1}},
		{"an event with the correlation id of another command", func(s *story) {
			a, b := *s.schedule("sc-1", 0, "a", 100), *s.schedule("sc-2", 0, "b", 100)
			a.Correlation, b.Correlation = b.Correlation, a.Correlation
			s.reached(&a, 110)
			s.reached(&b, 110)
		}, map[Rule]int{Invented: 2, Lost: 2}},
		{"an event that was there before its command", func(s *story) {
			c := Sent{Command: Command{
				Kind: Schedule, Key: Key{tenant, "sc"}, DueAt: at(100), Correlation: "cor-a", Version: Version{1, "a"},
			}, Acked: true, SentAt: at(200)}
			s.reached(&c, 110)
			s.send(c)
		}, map[Rule]int{Invented: 1, Lost: 1}},
		{"a dead letter of nothing that was sent", func(s *story) {
			s.deadLetter("?", DeadLettersTopic(tenant), "not_json")
		}, map[Rule]int{Invented: 1}},
		{"a version that fires though it was rescheduled in time", func(s *story) {
			a := *s.schedule("sc", 0, "a", 100)
			s.accept(s.schedule("sc", 50, "b", 500), 60)
			s.reached(&a, 110)
		}, map[Rule]int{Superseded: 1}},
		{"a version that fires though it was canceled in time", func(s *story) {
			a := *s.schedule("sc", 0, "a", 100)
			s.accept(s.cancel("sc", 50, "b"), 99)
			s.reached(&a, 110)
		}, map[Rule]int{Superseded: 1}},
		{"a late version that fires though a newer one was there first", func(s *story) {
			s.accept(s.cancel("sc", 50, "b"), 60)
			a := s.schedule("sc", 10, "a", 20)
			a.SentAt = at(70)
			s.reached(a, 80)
		}, map[Rule]int{Superseded: 1}},
		{"two versions that fire", func(s *story) {
			a, b := *s.schedule("sc", 0, "a", 100), *s.schedule("sc", 50, "b", 200)
			s.reached(&a, 110)
			s.reached(&b, 210)
		}, map[Rule]int{TwoVersions: 1}},
		{"two versions with one due time and no correlation id that fire", func(s *story) {
			a, b := *s.schedule("sc", 0, "a", 100), *s.schedule("sc", 50, "b", 100)
			s.Sent[0].Correlation, s.Sent[1].Correlation = "", ""
			a.Correlation, b.Correlation = "", ""
			s.reached(&a, 110)
			s.reached(&b, 110)
		}, map[Rule]int{TwoVersions: 1}},
		{"an event on the topic of another tenant", func(s *story) {
			s.reached(s.schedule("sc", 0, "a", 100), 110, func(f *eventDraft) { f.topic = EventsTopic("other") })
		}, map[Rule]int{WrongTopic: 1}},
		{"an event on a topic without consumers", func(s *story) {
			s.reached(s.schedule("sc", 0, "a", 100), 110, func(f *eventDraft) { f.topic = "svc.acme.other" })
		}, map[Rule]int{WrongTopic: 1}},
		{"a dead letter on the topic of another tenant", func(s *story) {
			s.poison("?")
			s.deadLetter("?", DeadLettersTopic("other"), "not_json")
		}, map[Rule]int{WrongTopic: 1}},
		{"a dead letter without a reason", func(s *story) {
			s.poison("?")
			s.deadLetter("?", DeadLettersTopic(tenant), "")
		}, map[Rule]int{Malformed: 1}},
		{"poison without a dead letter", func(s *story) {
			s.poison("?")
		}, map[Rule]int{NoDeadLetter: 1}},
		{"two poison messages of one body with one dead letter", func(s *story) {
			s.poison("")
			s.poison("")
			s.deadLetter("", DeadLettersTopic(tenant), "not_json")
		}, map[Rule]int{NoDeadLetter: 1}},
		{"a valid command that became a dead letter", func(s *story) {
			c := s.schedule("sc", 0, "a", 100)
			s.reached(c, 110)
			s.deadLetter(string(c.Body), DeadLettersTopic(tenant), "refused")
		}, map[Rule]int{Refused: 1}},
		{"a message of another type that became a dead letter", func(s *story) {
			s.foreign("other")
			s.deadLetter("other", DeadLettersTopic(tenant), "bad_field")
		}, map[Rule]int{Refused: 1}},
		{"attempts that differ", func(s *story) {
			c := s.schedule("sc", 0, "a", 100)
			s.reached(c, 110)
			s.Attempts = map[string]Attempt{eventID("a", c.DueAt): {Published: 2, Lasting: "x", Other: "y"}}
		}, map[Rule]int{Changed: 1, Repeated: 1}},
		{"an event that is published again, and dropped by the broker", func(s *story) {
			c := s.schedule("sc", 0, "a", 100)
			s.reached(c, 110)
			s.Attempts = map[string]Attempt{eventID("a", c.DueAt): {Published: 2, Lasting: "x"}}
		}, map[Rule]int{Repeated: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var s story
			tt.write(&s)
			v := Check(s.History)
			wantFindings(t, v, tt.want)
			if v.Violations() == 0 {
				t.Error("the verdict says that nothing is wrong")
			}
		})
	}
}

func TestCatchesMalformedEvents(t *testing.T) {
	t.Parallel()
	swap := func(old, new string) func(*Message) {
		return func(m *Message) { m.Body = []byte(strings.Replace(string(m.Body), old, new, 1)) }
	}
	for name, spoil := range map[string]func(*Message){
		"another type":             swap("DueTimeReached", "ScheduleTimer"),
		"tenants that disagree":    swap(`"tenantId":"acme","aggregateId"`, `"tenantId":"other","aggregateId"`),
		"keys that disagree":       swap(`"aggregateId":"sc"`, `"aggregateId":"other"`),
		"a cause":                  swap(`"timestampMs"`, `"causationId":"x","timestampMs"`),
		"no time":                  swap(`"timestampMs"`, `"timestamp"`),
		"an id that is no UUID":    swap(`{"id":"`, `{"id":"0`),
		"a due time with a zone":   swap(`00.100Z`, `00.100+00:00`),
		"a due time in seconds":    swap(`00.100Z`, `00Z`),
		"no JSON":                  swap(`{`, ``),
		"an id with another time":  func(m *Message) { spoilID(m, eventID("a", at(101))) },
		"an id of another version": func(m *Message) { spoilID(m, "0197a8d2-0000-4000-8000-000000000000") },
		"a header that disagrees":  func(m *Message) { m.Header["tenantId"] = "other" },
		"a header that is missing": func(m *Message) { delete(m.Header, "correlationId") },
		"another id for dedupe":    func(m *Message) { m.Header["Nats-Msg-Id"] = "x" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s story
			m := s.reached(s.schedule("sc", 0, "a", 100), 110)
			before := string(m.Body) + m.Header["tenantId"] + m.Header["correlationId"] + m.Header["Nats-Msg-Id"]
			spoil(m)
			if string(m.Body)+m.Header["tenantId"]+m.Header["correlationId"]+m.Header["Nats-Msg-Id"] == before {
				t.Fatal("the event is as it was")
			}
			if v := Check(s.History); v.Count(Malformed) != 1 {
				t.Errorf("got %d malformed events, want 1", v.Count(Malformed))
			}
		})
	}
}

// spoilID gives an event another id wherever its id stands.
func spoilID(m *Message, id string) {
	old := m.Header["messageId"]
	m.Body = []byte(strings.Replace(string(m.Body), old, id, 1))
	m.Header["messageId"], m.Header["Nats-Msg-Id"] = id, id
}
