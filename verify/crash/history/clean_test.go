package history

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRaisesNoFalseAlarm(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name            string
		write           func(*story)
		fired, canceled int
	}{
		{"nothing happened", func(*story) {}, 0, 0},
		{"a timer fires", func(s *story) {
			s.reached(s.schedule("sc", 0, "a", 100), 110)
		}, 1, 0},
		{"a timer fires half a minute late, after a crash", func(s *story) {
			s.reached(s.schedule("sc", 0, "a", 100), 30_110)
		}, 1, 0},
		{"a timer fires at once, being due in the past", func(s *story) {
			s.reached(s.schedule("sc", 100, "a", 0), 101)
		}, 1, 0},
		{"a timer without a correlation id fires", func(s *story) {
			c := s.schedule("sc", 0, "a", 100)
			c.Correlation = ""
			m := s.reached(c, 110)
			delete(m.Header, "correlationId")
		}, 1, 0},
		{"a timer is canceled", func(s *story) {
			s.schedule("sc", 0, "a", 100)
			s.accept(s.cancel("sc", 10, "b"), 20)
		}, 0, 1},
		{"a timer is canceled before its command arrives", func(s *story) {
			s.cancel("sc", 10, "b")
			s.schedule("sc", 0, "a", 100)
		}, 0, 1},
		{"a tombstone stays alone", func(s *story) { s.cancel("sc", 10, "b") }, 0, 0},
		{"a timer fires before its cancellation got through", func(s *story) {
			a := *s.schedule("sc", 0, "a", 100)
			s.accept(s.cancel("sc", 50, "b"), 100)
			s.reached(&a, 110)
		}, 1, 0},
		{"a timer fires though its cancellation was sent in time, but not acked", func(s *story) {
			a := *s.schedule("sc", 0, "a", 100)
			s.cancel("sc", 10, "b")
			s.reached(&a, 110)
		}, 1, 0},
		{"a timer is rescheduled to later", func(s *story) {
			s.schedule("sc", 0, "a", 100)
			b := s.schedule("sc", 10, "b", 200)
			s.accept(b, 20)
			s.reached(b, 210)
		}, 1, 0},
		{"a timer is rescheduled to sooner", func(s *story) {
			s.schedule("sc", 0, "a", 200)
			b := s.schedule("sc", 10, "b", 100)
			s.accept(b, 20)
			s.reached(b, 110)
		}, 1, 0},
		{"a timer fires for the old due time, its new one being too late", func(s *story) {
			a := *s.schedule("sc", 0, "a", 100)
			s.accept(s.schedule("sc", 99, "b", 500), 101)
			s.reached(&a, 102)
		}, 1, 0},
		{"a newer version fires before an older one that was accepted later is due", func(s *story) {
			b := *s.schedule("sc", 10, "b", 100)
			s.accept(s.schedule("sc", 0, "a", 200), 50)
			s.reached(&b, 110)
		}, 1, 0},
		{"an older version arrives first and fires first", func(s *story) {
			a := *s.schedule("sc", 0, "a", 20)
			s.reached(&a, 21)
			s.accept(s.schedule("sc", 30, "b", 100), 40)
		}, 1, 0},
		{"a command arrives twice", func(s *story) {
			a := *s.schedule("sc", 0, "a", 100)
			s.accept(&a, 10)
			again := a
			again.SentAt = at(50)
			s.accept(s.send(again), 60)
			s.reached(&a, 110)
		}, 1, 0},
		{"a timer is canceled and scheduled again to the same time", func(s *story) {
			s.schedule("sc", 0, "a", 100)
			s.accept(s.cancel("sc", 10, "b"), 15)
			c := s.schedule("sc", 20, "c", 100)
			s.accept(c, 25)
			s.reached(c, 110)
		}, 1, 0},
		{"two versions are the same to an observer, and the newer one fires", func(s *story) {
			a, b := *s.schedule("sc", 0, "a", 100), *s.schedule("sc", 10, "b", 100)
			s.Sent[0].Correlation, s.Sent[1].Correlation, b.Correlation = "x", "x", "x"
			s.accept(&a, 5)
			s.accept(&b, 15)
			s.reached(&b, 110)
		}, 1, 0},
		{"a command that was never confirmed fires all the same", func(s *story) {
			c := s.schedule("sc", 0, "a", 100)
			c.Acked = false
			s.reached(c, 110)
		}, 0, 0},
		{"a cancellation that was never confirmed takes effect all the same", func(s *story) {
			s.schedule("sc", 0, "a", 100)
			s.cancel("sc", 10, "b").Acked = false
		}, 0, 1},
		{"a command that was never confirmed does nothing", func(s *story) {
			s.schedule("sc", 0, "a", 100).Acked = false
		}, 0, 0},
		{"timers of two tenants share a service call id", func(s *story) {
			a, b := *s.schedule("sc", 0, "a", 100), *s.schedule("sc", 0, "b", 100)
			b.Tenant, s.Sent[1].Tenant = "other", "other"
			s.reached(&a, 110)
			s.reached(&b, 110)
		}, 2, 0},
		{"poison becomes a dead letter", func(s *story) {
			s.poison("?")
			s.deadLetter("?", DeadLettersTopic(tenant), "not_json")
		}, 0, 0},
		{"poison becomes a dead letter twice", func(s *story) {
			s.poison("?")
			s.deadLetter("?", DeadLettersTopic(tenant), "not_json")
			s.deadLetter("?", DeadLettersTopic(tenant), "not_json")
		}, 0, 0},
		{"a message of another type does nothing", func(s *story) { s.foreign("other") }, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var s story
			tt.write(&s)
			v := Check(s.History)
			wantFindings(t, v, nil)
			if v.Fired != tt.fired || v.Canceled != tt.canceled || v.Timers != tt.fired+tt.canceled {
				t.Errorf("got %d timers, %d fired, %d canceled, want %d fired, %d canceled",
					v.Timers, v.Fired, v.Canceled, tt.fired, tt.canceled)
			}
		})
	}
}

func TestWhatIsExcusedIsNoViolation(t *testing.T) {
	t.Parallel()
	var s story
	c := s.schedule("sc", 0, "a", 100)
	s.reached(c, 110)
	s.reached(c, 120)
	s.Attempts = map[string]Attempt{eventID("a", c.DueAt): {Published: 2, Lasting: "x"}}
	v := Check(s.History)
	v.Excuse(Duplicate, Repeated)
	if v.Violations() != 0 || v.Count(Duplicate) != 1 || v.Count(Repeated) != 1 {
		t.Errorf("got %d violations, %d duplicates and %d published again, want 0, 1 and 1",
			v.Violations(), v.Count(Duplicate), v.Count(Repeated))
	}
}

func TestMeasuresLateness(t *testing.T) {
	t.Parallel()
	var s story
	for i := range 100 { // the i-th is i milliseconds late
		n := strconv.Itoa(i)
		c := s.schedule("sc-"+n, 0, "id-"+n, 1000+i)
		s.reached(c, 1000+2*i)
	}
	// Due in the past: what counts is when it was sent.
	s.reached(s.schedule("past", 5000, "past", 0), 5007)
	s.Up = []Span{{at(0), at(1010)}, {at(1020), at(1030)}}

	v := Check(s.History)
	wantFindings(t, v, nil)
	for _, tt := range []struct {
		name      string
		got, want Lateness
	}{
		{"overall", v.Overall, Lateness{Count: 101, P50MS: 49, P99MS: 98, MaxMS: 99}},
		{"while up", v.WhileUp, Lateness{Count: 20, P50MS: 9, P99MS: 29, MaxMS: 29}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestRecorderKeepsEachMessageOnce(t *testing.T) {
	t.Parallel()
	var r Recorder
	for _, seq := range []uint64{1, 2, 1, 2, 5, 3} {
		r.Message(Message{Seq: seq})
	}
	if got := len(r.History().Messages); got != 3 {
		t.Errorf("got %d messages, want 3", got)
	}
}

func TestRecorderComparesAttempts(t *testing.T) {
	t.Parallel()
	var s story
	c := s.schedule("sc", 0, "a", 100)
	same := []*Message{s.reached(c, 110), s.reached(c, 120)}
	other := s.reached(c, 120, func(f *eventDraft) { f.extra = `"x":1,` })

	var r Recorder
	r.Attempt(*same[0])
	r.Attempt(*same[1])
	if a := r.History().Attempts[eventID("a", c.DueAt)]; a.Published != 2 || a.Other != "" {
		t.Errorf("after two equal attempts: %+v", a)
	}
	r.Attempt(*other)
	if a := r.History().Attempts[eventID("a", c.DueAt)]; a.Published != 3 || a.Other == "" {
		t.Errorf("after one that differs: %+v", a)
	}
}

func TestRecorderKeepsTheFirstAck(t *testing.T) {
	t.Parallel()
	var r Recorder
	r.Accepted(1, at(10))
	before := r.History()
	r.Accepted(1, at(20))
	r.Accepted(2, at(30))
	if got := r.History().Accepted; !got[1].Equal(at(10)) || len(got) != 2 {
		t.Errorf("got %v", got)
	}
	if len(before.Accepted) != 1 {
		t.Error("a history changed after it was taken")
	}
}

func TestCountsWhatWasPublishedAgain(t *testing.T) {
	t.Parallel()
	v := Check(History{Attempts: map[string]Attempt{"a": {Published: 1}, "b": {Published: 4}, "c": {Published: 2}}})
	if v.Republished != 4 || v.MostOften != 4 {
		t.Errorf("%d published again, one of them %d times, want 4 and 4", v.Republished, v.MostOften)
	}
	wantFindings(t, v, map[Rule]int{Repeated: 2})
}

// Several instances report when they were up, each for itself.
func TestUpIfAnyIs(t *testing.T) {
	t.Parallel()
	var r Recorder
	at := func(s int) time.Time { return time.Date(2030, 1, 1, 12, 0, s, 0, time.UTC) }
	var given History
	for i, s := range []Span{
		{at(10), at(20)},
		{at(40), at(50)},
		{at(15), at(25)}, // reaches beyond the first
		{at(0), at(5)},   // is reported late
		{at(41), at(42)}, // says nothing new
		{at(25), at(30)}, // begins where another ends
		{at(60), at(60)}, // is nothing
	} {
		r.Up(s.From, s.To)
		if i == 1 {
			given = r.History()
		}
	}
	want := []Span{{at(0), at(5)}, {at(10), at(30)}, {at(40), at(50)}}
	if got := r.History().Up; !slices.Equal(got, want) {
		t.Errorf("up in %v, want %v", got, want)
	}
	if want = []Span{{at(10), at(20)}, {at(40), at(50)}}; !slices.Equal(given.Up, want) {
		t.Errorf("a history that was returned changed to %v", given.Up)
	}
	h := r.History()
	for s, up := range map[int]bool{0: true, 5: false, 8: false, 20: true, 29: true, 30: false, 45: true, 55: false} {
		if h.upAt(at(s)) != up {
			t.Errorf("up at %d s: %v, want %v", s, h.upAt(at(s)), up)
		}
	}
}
