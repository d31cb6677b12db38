package history

import (
	"testing"
	"time"
)

// again has the event of a command published at further times, and stored at none.
func (s *story) again(c *Sent, ms ...int) {
	a := Attempt{Published: 1 + len(ms), Lasting: "x"}
	for _, at := range ms {
		a.Again = append(a.Again, epoch.Add(time.Duration(at)*time.Millisecond))
	}
	s.Attempts = map[string]Attempt{eventID(c.ID, c.DueAt): a}
}

func (s *story) restart(killed, began int, emptied bool) {
	s.Restarts = append(s.Restarts, Restart{Killed: at(killed), Began: at(began), Emptied: emptied})
}

func TestConvictsAProcessThatFiresAgain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		write func(*story, *Sent)
		want  int
	}{
		{"what the broker had long before the kill", func(s *story, c *Sent) {
			s.restart(3000, 3100, false)
			s.again(c, 3500)
		}, 1},
		{"what the broker had long before the kill, and keeps again", func(s *story, c *Sent) {
			s.restart(3000, 3100, false)
			s.reached(c, 3500)
		}, 1},
		{"what the broker had long before the second kill, though not before the first", func(s *story, c *Sent) {
			s.restart(200, 300, false)
			s.restart(3000, 3100, false)
			s.again(c, 600, 3500)
		}, 1},
		{"what the broker had a moment before the kill, and the next process lived for a moment, too", func(s *story, c *Sent) {
			s.restart(150, 1950, false)
			s.restart(2000, 2100, false)
			s.again(c, 3500)
		}, 0},
		{"what the broker had a moment before the kill", func(s *story, c *Sent) {
			s.restart(1000, 1100, false)
			s.again(c, 3500)
		}, 0},
		{"what the broker had after the kill, as a delayed publish", func(s *story, c *Sent) {
			s.restart(105, 107, false)
			s.again(c, 3500)
		}, 0},
		{"before any kill", func(s *story, c *Sent) {
			s.restart(4000, 4100, false)
			s.again(c, 3500)
		}, 0},
		{"and it is heard late, after a kill", func(s *story, c *Sent) {
			s.restart(200, 300, false)
			s.restart(3400, 3450, false)
			s.again(c, 3500)
		}, 0},
		{"what was published long before the broker was emptied", func(s *story, c *Sent) {
			s.restart(3000, 3100, true)
			s.again(c, 3500)
		}, 1},
		{"what was published again a moment before the broker was emptied", func(s *story, c *Sent) {
			s.restart(200, 300, true)
			s.restart(3000, 3100, true)
			s.again(c, 2900, 3500)
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var s story
			c := s.schedule("sc", 0, "a", 100)
			s.reached(c, 110)
			tt.write(&s, c)
			v := Check(s.History)
			v.Excuse(Repeated, Duplicate)
			wantFindings(t, v, map[Rule]int{Refired: tt.want, Repeated: v.Count(Repeated), Duplicate: v.Count(Duplicate)})
			if v.Violations() != tt.want {
				t.Errorf("%d violations, want %d", v.Violations(), tt.want)
			}
		})
	}
}

// What an emptied broker had is lost with it, unless the service had acked it.
func TestBrokerThatWasEmptied(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		write func(*story)
		gone  int
		want  map[Rule]int
	}{
		{"commands that the service had not acked", func(s *story) {
			s.schedule("sc", 0, "a", 100)
			s.poison("?")
		}, 2, nil},
		{"a command that the service had acked, without an event", func(s *story) {
			s.accept(s.schedule("sc", 0, "a", 100), 50)
		}, 0, map[Rule]int{Lost: 1}},
		{"a command that the service had stored and not acked, with an event", func(s *story) {
			s.reached(s.schedule("sc", 0, "a", 100), 110)
		}, 1, nil},
		{"a CancelTimer that the service perhaps had taken", func(s *story) {
			s.accept(s.schedule("sc", 0, "a", 100), 20)
			s.cancel("sc", 50, "b")
		}, 1, nil},
		{"a reschedule that the service perhaps had taken", func(s *story) {
			s.accept(s.schedule("sc", 0, "a", 100), 20)
			s.schedule("sc", 50, "b", 200)
		}, 1, map[Rule]int{Lost: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var s story
			tt.write(&s)
			s.Emptied = newPlaces
			v := Check(s.History)
			wantFindings(t, v, tt.want)
			if v.Gone != tt.gone {
				t.Errorf("%d commands are gone, want %d", v.Gone, tt.gone)
			}
		})
	}
}

// A broker that begins to count again hides nothing.
func TestRecorderCountsOnWhenTheBrokerBeginsAgain(t *testing.T) {
	t.Parallel()
	var r Recorder
	r.Message(Message{Seq: 7})
	r.Accepted(3, at(1))
	base := r.Empty()
	r.Message(Message{Seq: 1})
	r.Message(Message{Seq: 1})
	r.Accepted(3, at(2))
	h := r.History()
	if len(h.Messages) != 2 || h.Messages[1].Seq != base+1 || h.Emptied != base {
		t.Errorf("messages %v, emptied %d, want a second one at %d", h.Messages, h.Emptied, base+1)
	}
	if !h.Accepted[3].Equal(at(1)) || !h.Accepted[base+3].Equal(at(2)) {
		t.Errorf("accepted %v", h.Accepted)
	}
	if _, seen := r.Count(); seen != 1 {
		t.Errorf("%d messages seen since, want 1", seen)
	}
}
