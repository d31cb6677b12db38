package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// damages are changes of the columns that a checksum covers, and of itself, which both
// databases understand.
var damages = []struct{ column, change string }{
	{"tenant_id", `tenant_id = 'acmf'`},
	{"service_call_id", `service_call_id = 'call-000003'`},
	{"command_at", `command_at = command_at + 1`},
	{"command_id", `command_id = 'command-3'`},
	{"due_at", `due_at = registered_at`},
	{"correlation_id", `correlation_id = 'request-2'`},
	{"no correlation_id", `correlation_id = NULL`},
	{"data", `data = '{"attempt":8}'`},
	{"checksum", `checksum = checksum / 2`},
}

// damage changes the row of a timer behind the back of the store.
func (s *suite) damage(change string, k timer.Key) {
	s.Helper()
	_, err := s.store.DB().ExecContext(s.Context(),
		`UPDATE timer_schedules SET `+change+` WHERE tenant_id = '`+string(k.TenantID)+`' AND service_call_id = '`+string(k.ServiceCallID)+`'`)
	s.must(err)
}

// damaged returns what was set aside.
func (s *suite) damaged() []timer.DamagedRow {
	s.Helper()
	rows, err := s.store.Damaged(s.Context(), 0, 0)
	s.must(err)
	s.same("damaged, in the stats", s.stats().Damaged, int64(len(rows)))
	return rows
}

// three returns commands for timers that are due a millisecond after each other.
func three() []timer.ScheduleTimer {
	commands := make([]timer.ScheduleTimer, 3)
	for i := range commands {
		commands[i] = schedule(key("acme", timer.ServiceCallID(fmt.Sprintf("call-%06d", i))), 2, noon.Add(time.Duration(i+1)*time.Millisecond))
		commands[i].CorrelationID, commands[i].Data = "request-1", `{"attempt":7}`
	}
	return commands
}

func damagedColumns(s *suite) {
	for _, d := range damages {
		s.Run(d.column, func(t *testing.T) {
			s := &suite{T: t, store: s.open(t)}
			commands := three()
			s.schedule(commands...)
			s.damage(d.change, commands[1].Key)
			s.same("fired", scheduledOf(s.reach(noon.Add(time.Second), 10)), []timer.ScheduleTimer{commands[0], commands[2]})
			s.same("fired then", len(s.reach(noon.Add(time.Second), 10)), 0) // a store may see it only when no other is left
			s.same("counts", s.stats().Counts, timer.Counts{Reached: 2})
			if d.column != "tenant_id" { // that of the tenant it had stays one too high
				s.countsAreRight()
			}
			rows := s.damaged()
			if len(rows) != 1 || !rows[0].FoundAt.Equal(noon.Add(time.Second)) {
				s.Fatalf("set aside: %+v", rows)
			}
			s.same("scheduled again", s.schedule(commands[1]), []timer.Outcome{timer.DidSchedule})
			s.same("fired", scheduledOf(s.reach(noon.Add(time.Second), 10)), commands[1:2])
			for _, want := range []int{1, 0} {
				n, err := s.store.DiscardDamaged(s.Context(), rows[0].Seq)
				s.must(err)
				s.same("discarded", n, want)
			}
			s.same("left", len(s.damaged()), 0)
		})
	}
}

// scheduledOf returns the commands of timers, in the order of their keys.
func scheduledOf(entries []timer.Entry) (commands []timer.ScheduleTimer) {
	for _, e := range entries {
		commands = append(commands, timer.ScheduleTimer{Key: e.Key, Version: e.Version, DueAt: e.DueAt, CorrelationID: e.CorrelationID, Data: e.Data})
	}
	slices.SortFunc(commands, func(a, b timer.ScheduleTimer) int { return a.Key.Compare(b.Key) })
	return commands
}

func damagedMany(s *suite) {
	const tenants, each = 5, 20
	for i := range tenants {
		s.timers(timer.TenantID(fmt.Sprint("tenant-", i)), each, noon)
	}
	for i := range each {
		s.damage(`command_id = 'other'`, key(timer.TenantID(fmt.Sprint("tenant-", i%2)), timer.ServiceCallID(fmt.Sprintf("call-%06d", i))))
	}
	fired := 0
	for due := noon; !due.IsZero(); due = s.nextDue() {
		for _, e := range s.reach(noon.Add(time.Hour), 7) {
			s.same("command", e.CommandID, "command-1")
			fired++
		}
	}
	s.same("fired", fired, tenants*each-each)
	rows := s.damaged()
	s.same("set aside", len(rows), each)
	s.same("in the order they were found", slices.IsSortedFunc(rows, func(a, b timer.DamagedRow) int { return cmp.Compare(a.Seq, b.Seq) }), true)
	page, err := s.store.Damaged(s.Context(), rows[each-3].Seq, 1)
	s.must(err)
	s.same("page", page, rows[each-2:each-1])
	n, err := s.store.DiscardDamaged(s.Context(), rows[0].Seq, rows[1].Seq, rows[each-1].Seq+1)
	s.must(err)
	s.same("discarded", n, 2)
	_, err = s.store.Forget(s.Context(), rows[3].TenantID, 1000)
	s.must(err)
	for _, row := range s.damaged() {
		s.same("of the tenant that was forgotten", row.TenantID == rows[3].TenantID, false)
	}
}

func damagedUnverified(s *suite) {
	commands := three()
	s.schedule(commands...)
	s.damage(`checksum = NULL`, commands[0].Key)
	s.same("fired", scheduledOf(s.reach(noon.Add(time.Second), 10)), commands)
	s.same("set aside", len(s.damaged()), 0)
}

func damagedRollback(s *suite) {
	commands := three()
	s.schedule(commands...)
	s.damage(`command_id = 'other'`, commands[1].Key)
	errFailed := errors.New("failed")
	err := s.store.Update(s.Context(), func(tx timer.Tx) error {
		_, err := tx.Reach(s.Context(), noon.Add(time.Second), 10, nil)
		return cmp.Or(err, errFailed)
	})
	s.same("error", errors.Is(err, errFailed), true)
	s.same("set aside", len(s.damaged()), 0)
	s.same("counts", s.stats().Counts, timer.Counts{Scheduled: 3})
}

func damagedNever(s *suite) {
	commands := three()
	s.schedule(commands...)
	s.cancel(cancel(commands[0].Key, 3), cancel(commands[1].Key, 3), cancel(key("acme", "tombstone"), 3))
	for i := range commands {
		commands[i].TimestampMS += int64(10 + i)
		commands[i].Data = ""
		commands[i].DueAt = commands[i].DueAt.Add(time.Microsecond)
	}
	again := schedule(key("acme", "tombstone"), 5, noon)
	s.schedule(append(commands, again)...)
	s.same("fired", len(s.reach(noon.Add(time.Second), 10)), 4)
	s.same("set aside", len(s.damaged()), 0)
}
