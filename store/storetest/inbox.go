package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// nextTake is when messages that were taken may be taken again.
var nextTake = noon.Add(30 * time.Second)

// waitingMessage returns a message of a tenant that waits until noon for its quota.
func waitingMessage(tenant timer.TenantID, id string) timer.InboxMessage {
	return timer.InboxMessage{
		TenantID: tenant, Topic: "commands", MessageID: id, Headers: map[string]string{"tenantId": string(tenant)}, Body: []byte(id),
		ArrivedAt: noon.Add(-time.Minute), Reason: timer.WaitQuota, RetryAt: noon,
	}
}

// manyWaiting returns messages of a tenant, one after the other by their time to be handled.
func manyWaiting(tenant timer.TenantID, n int) []timer.InboxMessage {
	all := make([]timer.InboxMessage, n)
	for i := range all {
		all[i] = waitingMessage(tenant, fmt.Sprint(tenant, "-", i))
		all[i].RetryAt = noon.Add(time.Duration(i-n) * time.Millisecond)
	}
	return all
}

// selection returns a selection of a tenant that was applied.
func selection(tenant timer.TenantID, log string, number int64, arrived time.Time) timer.InboxMessage {
	m := waitingMessage(tenant, fmt.Sprint(log, "-", number))
	m.Log, m.Number, m.ArrivedAt, m.Reason, m.RetryAt = log, number, arrived, timer.WaitApplied, time.Time{}
	return m
}

func (s *suite) putInbox(messages ...timer.InboxMessage) {
	s.Helper()
	s.must(s.store.Inbox().PutInbox(s.Context(), messages...))
}

func (s *suite) takeInbox(now time.Time, limit, each int, without ...timer.TenantID) []timer.InboxMessage {
	s.Helper()
	messages, err := s.store.Inbox().TakeInbox(s.Context(), now, now.Add(nextTake.Sub(noon)), limit, each, without)
	s.must(err)
	return messages
}

func (s *suite) nextInbox() time.Time {
	s.Helper()
	next, err := s.store.Inbox().NextInbox(s.Context())
	s.must(err)
	return next
}

func (s *suite) inboxCounts(tenant timer.TenantID) []timer.InboxCount {
	s.Helper()
	counts, err := s.store.Inbox().InboxCounts(s.Context(), tenant)
	s.must(err)
	return counts
}

func (s *suite) applied(tenant timer.TenantID) []string {
	s.Helper()
	selections, err := s.store.Inbox().AppliedSelections(s.Context(), tenant, 0)
	s.must(err)
	return messageIDs(selections)
}

func messageIDs(messages []timer.InboxMessage) (ids []string) {
	for _, m := range messages {
		ids = append(ids, m.MessageID)
	}
	return ids
}

func seqs(messages []timer.InboxMessage) (numbers []int64) {
	for _, m := range messages {
		numbers = append(numbers, m.Seq)
	}
	return numbers
}

func byTenant(messages []timer.InboxMessage) map[timer.TenantID]int {
	counts := make(map[timer.TenantID]int)
	for _, m := range messages {
		counts[m.TenantID]++
	}
	return counts
}

func inboxKeepsAll(s *suite) {
	full := timer.InboxMessage{
		TenantID: "acme", Log: "commands@1", Number: 1 << 53, Topic: "svc.commands", Position: "svc.commands 3/77", MessageID: "0194-full",
		Headers: map[string]string{"tenantId": "acme", "x": "é\u2028\x00\""}, Body: []byte("\x00\xff{}"),
		ArrivedAt: noon.Add(-time.Hour), Reason: timer.WaitFailed, RetryAt: noon.Add(-time.Second), Attempts: 3, LastError: "no answer",
	}
	bare := timer.InboxMessage{TenantID: timer.NoTenant, ArrivedAt: noon, Reason: timer.WaitQuota, RetryAt: noon}
	s.putInbox()
	s.putInbox(full, bare)
	got := s.takeInbox(noon, 10, 10)
	if len(got) == 2 && (got[0].Seq == 0 || got[0].Seq == got[1].Seq) {
		s.Errorf("the numbers are %v", seqs(got))
	}
	for i := range got {
		got[i].Seq = 0
	}
	full.RetryAt, bare.RetryAt = nextTake, nextTake
	s.same("messages", got, []timer.InboxMessage{full, bare})
}

func inboxHasten(s *suite) {
	early, late, far := waitingMessage("acme", "early"), waitingMessage("acme", "late"), waitingMessage("globex", "far")
	early.RetryAt, late.RetryAt, far.RetryAt = noon.Add(time.Minute), noon.Add(time.Minute+time.Millisecond), noon.Add(6*time.Hour)
	s.putInbox(early, late, far, selection("acme", "log", 1, noon))
	s.must(s.store.Inbox().HastenInbox(s.Context(), noon, noon.Add(time.Minute)))
	s.same("due", messageIDs(s.takeInbox(noon, 10, 10)), []string{"late", "far"})
	s.same("the next time", s.nextInbox(), nextTake)
	s.same("applied", s.applied("acme"), []string{"log-1"})
}

func inboxTexts(s *suite) {
	m := waitingMessage("acme", "bad\x00\xff")
	m.Position, m.LastError = "\x00", "\xff"
	s.putInbox(m)
	got := s.takeInbox(noon, 1, 1)[0]
	s.same("texts", []string{got.MessageID, got.Position, got.LastError}, []string{"bad\uFFFD\uFFFD", "\uFFFD", "\uFFFD"})
}

func inboxRounds(s *suite) {
	m := waitingMessage("acme", "m")
	m.ArrivedAt, m.RetryAt = noon.Add(-1), noon.Add(1)
	s.putInbox(m)
	s.same("the next time", s.nextInbox(), noon.Add(time.Millisecond))
	s.same("what is due at noon", messageIDs(s.takeInbox(noon, 1, 1)), []string{})
	s.same("when it arrived", s.takeInbox(noon.Add(time.Millisecond), 1, 1)[0].ArrivedAt, noon.Add(-time.Millisecond))
}

func inboxPutMany(s *suite) {
	const n = 1000
	s.putInbox(manyWaiting("acme", n)...)
	got := s.takeInbox(noon, 2*n, 2*n)
	s.same("messages", messageIDs(got), messageIDs(manyWaiting("acme", n)))
	s.must(s.store.Inbox().DeleteInbox(s.Context(), seqs(got)...))
	s.same("what is left", s.inboxCounts(""), []timer.InboxCount{})
}

func inboxClaims(s *suite) {
	s.putInbox(manyWaiting("acme", 3)...)
	s.same("the first", messageIDs(s.takeInbox(noon, 2, 10)), []string{"acme-0", "acme-1"})
	s.same("the rest", messageIDs(s.takeInbox(noon, 2, 10)), []string{"acme-2"})
	s.same("nothing is left", messageIDs(s.takeInbox(noon, 2, 10)), []string{})
	s.same("the next time", s.nextInbox(), nextTake)
	s.same("just before their time", messageIDs(s.takeInbox(nextTake.Add(-time.Millisecond), 3, 10)), []string{})
	s.same("at their time", len(s.takeInbox(nextTake, 3, 10)), 3)
}

func inboxEach(s *suite) {
	s.putInbox(manyWaiting("acme", 5)...)
	s.putInbox(manyWaiting("beta", 5)...)
	s.same("at most two of each", byTenant(s.takeInbox(noon, 10, 2)), map[timer.TenantID]int{"acme": 2, "beta": 2})
	s.same("without one", byTenant(s.takeInbox(noon, 10, 2, "acme", "gone")), map[timer.TenantID]int{"beta": 2})
	s.same("without both", byTenant(s.takeInbox(noon, 10, 2, "beta", "acme")), map[timer.TenantID]int{})
	s.same("nothing for a limit of none", byTenant(s.takeInbox(noon, 0, 2)), map[timer.TenantID]int{})
}

func inboxShares(s *suite) {
	s.putInbox(manyWaiting("great", 50)...)
	s.putInbox(manyWaiting("small", 2)...)
	s.putInbox(manyWaiting("middle", 5)...)
	s.same("shares", byTenant(s.takeInbox(noon, 12, 50)), map[timer.TenantID]int{"great": 5, "middle": 5, "small": 2})
}

func inboxGreatTenant(s *suite) {
	s.putInbox(manyWaiting("great", 5000)...)
	for i := range 5 {
		s.putInbox(manyWaiting(timer.TenantID(fmt.Sprint("small-", i)), 3)...)
	}
	got := byTenant(s.takeInbox(noon, 64, 32))
	for i := range 5 {
		s.same("messages of a small tenant", got[timer.TenantID(fmt.Sprint("small-", i))], 3)
	}
	s.same("messages of the great one", got["great"], 32)
}

func inboxManyTenants(s *suite) {
	const tenants, limit = 50, 8
	var all []timer.InboxMessage
	for i := range tenants {
		all = append(all, manyWaiting(timer.TenantID(fmt.Sprintf("tenant-%02d", i)), 3)...)
	}
	s.putInbox(all...)
	counts := make(map[timer.TenantID]int)
	for range (tenants + limit - 1) / limit {
		for tenant, n := range byTenant(s.takeInbox(noon, limit, 3)) {
			counts[tenant] += n
		}
	}
	s.same("tenants of which some was taken in a round", len(counts), tenants)
}

func inboxConcurrently(s *suite) {
	const n = 600
	s.putInbox(manyWaiting("acme", n)...)
	s.putInbox(manyWaiting("beta", n)...)
	var mu sync.Mutex
	var all sync.WaitGroup
	taken := make(map[int64]int)
	for range 4 {
		all.Go(func() {
			for range 2 * n {
				got, err := s.store.Inbox().TakeInbox(s.Context(), noon, nextTake, 64, 32, nil)
				s.check(err)
				mu.Lock()
				for _, m := range got {
					taken[m.Seq]++
				}
				ends := len(taken) == 2*n || err != nil
				mu.Unlock()
				if ends {
					return
				}
			}
		})
	}
	all.Wait()
	s.same("messages that were taken", len(taken), 2*n)
	for seq, times := range taken {
		if times > 1 {
			s.Errorf("message %d was taken %d times", seq, times)
		}
	}
}

func inboxDefer(s *suite) {
	s.putInbox(waitingMessage("acme", "first"), waitingMessage("acme", "second"))
	got := s.takeInbox(noon, 10, 10)
	first := got[0]
	first.Reason, first.RetryAt, first.Attempts, first.LastError = timer.WaitFailed, noon.Add(time.Second), 4, "no\x00 answer"
	first.Body, first.TenantID = nil, "" // which stay as they are
	gone := first
	gone.Seq = 1 << 40
	s.must(s.store.Inbox().DeferInbox(s.Context()))
	s.must(s.store.Inbox().DeferInbox(s.Context(), first, gone))
	s.same("the next time", s.nextInbox(), noon.Add(time.Second))
	want := got[0]
	want.Reason, want.Attempts, want.LastError, want.RetryAt = timer.WaitFailed, 4, "no\uFFFD answer", nextTake.Add(time.Second)
	s.same("the deferred one", s.takeInbox(noon.Add(time.Second), 10, 10), []timer.InboxMessage{want})
}

func inboxDeferApplied(s *suite) {
	s.putInbox(selection("acme", "log", 7, noon))
	all, err := s.store.Inbox().AppliedSelections(s.Context(), "acme", 0)
	s.must(err)
	m := all[0]
	m.Reason, m.RetryAt = timer.WaitFailed, noon
	s.must(s.store.Inbox().DeferInbox(s.Context(), m))
	s.same("what waits", s.inboxCounts(""), []timer.InboxCount{})
}

func inboxDelete(s *suite) {
	s.putInbox(manyWaiting("acme", 3)...)
	got := s.takeInbox(noon, 2, 10)
	for range 2 {
		s.must(s.store.Inbox().DeleteInbox(s.Context(), seqs(got)...))
	}
	s.must(s.store.Inbox().DeleteInbox(s.Context()))
	s.same("what is left", messageIDs(s.takeInbox(noon, 10, 10)), []string{"acme-2"})
	last := got[1].Seq
	s.must(s.store.Inbox().DeleteInbox(s.Context(), last+1))
	s.putInbox(waitingMessage("acme", "new"))
	if next := s.takeInbox(noon, 1, 1)[0].Seq; next <= last+1 {
		s.Errorf("number %d was given again, after %d", next, last+1)
	}
}

func inboxCounted(s *suite) {
	failed := waitingMessage("acme", "failed")
	failed.Reason, failed.ArrivedAt = timer.WaitFailed, noon
	oldest := waitingMessage("beta", "oldest")
	oldest.ArrivedAt = noon.Add(-time.Hour)
	s.putInbox(waitingMessage("acme", "1"), waitingMessage("acme", "22"), failed, oldest, waitingMessage("beta", "b"), selection("acme", "log", 1, noon), selection("zoe", "log", 2, noon))
	bytes := func(bodies ...string) (n int64) {
		for _, b := range bodies {
			n += int64(len(`{"tenantId":"acme"}`) + len(b))
		}
		return n
	}
	acme := []timer.InboxCount{
		{TenantID: "acme", Reason: timer.WaitQuota, Messages: 2, Bytes: bytes("1", "22"), Oldest: noon.Add(-time.Minute)},
		{TenantID: "acme", Reason: timer.WaitFailed, Messages: 1, Bytes: bytes("failed"), Oldest: noon},
	}
	beta := timer.InboxCount{TenantID: "beta", Reason: timer.WaitQuota, Messages: 2, Bytes: bytes("oldest", "b"), Oldest: noon.Add(-time.Hour)}
	s.same("counts of all", s.inboxCounts(""), append(acme[:2:2], beta))
	s.same("counts of one", s.inboxCounts("acme"), acme)
	s.same("counts of none", s.inboxCounts("zoe"), []timer.InboxCount{})
	s.takeInbox(noon, 10, 10)
	s.same("counts of what was taken", s.inboxCounts("acme"), acme)
}

func inboxNext(s *suite) {
	s.same("in an empty inbox", s.nextInbox(), time.Time{})
	s.putInbox(selection("acme", "log", 1, noon))
	s.same("with a selection", s.nextInbox(), time.Time{})
	early, late := waitingMessage("zoe", "early"), waitingMessage("acme", "late")
	early.RetryAt = noon.Add(-time.Hour)
	s.putInbox(late, early)
	s.same("with two that wait", s.nextInbox(), noon.Add(-time.Hour))
}

func inboxSelections(s *suite) {
	s.putInbox(waitingMessage("acme", "waits"), selection("acme", "log", 1, noon), selection("acme", "log", 2, noon), selection("beta", "log", 3, noon))
	all, err := s.store.Inbox().AppliedSelections(s.Context(), "acme", 0)
	s.must(err)
	want := []timer.InboxMessage{selection("acme", "log", 1, noon), selection("acme", "log", 2, noon)}
	for i := range min(len(all), 2) {
		want[i].Seq = all[i].Seq
	}
	s.same("selections", all, want)
	behind, err := s.store.Inbox().AppliedSelections(s.Context(), "acme", all[0].Seq)
	s.must(err)
	s.same("selections behind the first", behind, want[1:])
	s.same("taken", messageIDs(s.takeInbox(noon, 10, 10)), []string{"waits"})
}

func inboxReplace(s *suite) {
	waits, others := waitingMessage("acme", "waits"), waitingMessage("acme", "others")
	waits.Log, waits.Number, others.Log, others.Number = "log", 1, "log", 2
	s.putInbox(waits, others)
	s.putInbox(selection("acme", "log", 1, noon))
	s.putInbox(selection("acme", "log", 1, noon.Add(time.Hour)), waits) // both are there
	all, err := s.store.Inbox().AppliedSelections(s.Context(), "acme", 0)
	s.must(err)
	if len(all) != 1 || !all[0].ArrivedAt.Equal(noon) {
		s.Errorf("selections %+v", all)
	}
	s.same("what waits", messageIDs(s.takeInbox(noon, 10, 10)), []string{"others"})
}

func inboxNumbers(s *suite) {
	waits := waitingMessage("acme", "waits")
	waits.Log, waits.Number = "log", 8
	again := waits
	again.ArrivedAt = noon.Add(-time.Hour) // it is delivered again, and not added
	s.putInbox(selection("acme", "log", 7, noon), waits, again, selection("acme", "other", 9, noon), waitingMessage("acme", "of no log"))
	got, err := s.store.Inbox().InInbox(s.Context(), "log", 0, 7, 8, 9, 10)
	s.must(err)
	s.same("numbers", slices.Sorted(maps.Keys(got)), []int64{7, 8})
	s.same("messages", messageIDs(s.takeInbox(noon.Add(time.Hour), 10, 10)), []string{"waits", "of no log"})
	got, err = s.store.Inbox().InInbox(s.Context(), "log")
	s.must(err)
	s.same("no numbers", got, map[int64]int64{})
}

func inboxDamaged(s *suite) {
	s.putInbox(waitingMessage("acme", "damaged"), waitingMessage("beta", "other"), selection("acme", "log", 1, noon))
	_, err := s.store.DB().ExecContext(s.Context(), `UPDATE timer_inbox SET headers = replace(headers, '"', '') WHERE tenant_id = 'acme'`)
	s.must(err)
	taken := s.takeInbox(noon, 10, 10)
	s.same("taken", messageIDs(taken), []string{"damaged", "other"})
	s.same("headers", []any{taken[0].Headers, taken[1].Headers}, []any{map[string]string(nil), map[string]string{"tenantId": "beta"}})
	s.same("body", string(taken[0].Body), "damaged")
	s.same("selections", s.applied("acme"), []string{"log-1"})
}

func inboxForget(s *suite) {
	late := waitingMessage("acme", "late")
	late.ArrivedAt = noon
	s.putInbox(manyWaiting("acme", 5)...)
	s.putInbox(late, selection("acme", "log", 1, noon.Add(-time.Second)), selection("acme", "log", 2, noon), waitingMessage("beta", "other"))
	forget := func(before time.Time, limit int) {
		s.Helper()
		_, err := s.store.Forget(s.Context(), "acme", before, limit)
		s.must(err)
	}
	forget(noon, 4)
	s.same("messages that arrived later", s.inboxCounts("acme")[0].Messages, int64(1))
	s.same("selections that arrived later", s.applied("acme"), []string{"log-2"})
	forget(time.Time{}, 1)
	s.same("what is left", messageIDs(s.takeInbox(noon, 10, 10)), []string{"other"})
	s.same("selections", s.applied("acme"), []string{})
}

// reached says that a database has all commands of a log up to a number.
func (s *suite) reached(log string, number int64) {
	s.Helper()
	_, err := s.store.DB().ExecContext(s.Context(), fmt.Sprintf(`DELETE FROM timer_numbers WHERE log = '%[1]s';
		INSERT INTO timer_numbers (broker, log, kind, number) VALUES ('b', '%[1]s', 'commands', %[2]d), ('b', '%[1]s', 'events', 1000)`, log, number))
	s.must(err)
}

func (s *suite) purgeApplied(before time.Time, limit, want int) {
	s.Helper()
	n, err := s.store.Inbox().PurgeApplied(s.Context(), before, limit)
	s.must(err)
	s.same("purged", n, want)
}

func purgeReached(s *suite) {
	s.purgeApplied(noon, 10, 0)
	s.putInbox(selection("acme", "log", 1, noon), selection("acme", "log", 2, noon), selection("beta", "log", 3, noon), selection("acme", "unknown", 1, noon))
	s.purgeApplied(noon.Add(time.Hour), 10, 0)
	s.reached("log", 2)
	s.purgeApplied(noon, 10, 2)
	s.same("what a start reads again", append(s.applied("acme"), s.applied("beta")...), []string{"unknown-1", "log-3"})
	s.reached("log", 3)
	s.purgeApplied(noon, 10, 1)
}

func purgeOfNoLog(s *suite) {
	s.putInbox(selection("acme", "", 0, noon))
	s.purgeApplied(noon, 10, 0)
	s.purgeApplied(noon.Add(time.Millisecond), 10, 1)
}

func purgeSelectionSteps(s *suite) {
	for i := range int64(5) {
		s.putInbox(selection("acme", "log", i, noon))
	}
	s.reached("log", 10)
	s.purgeApplied(noon, 3, 3)
	s.purgeApplied(noon, 3, 2)
}

func purgeWaits(s *suite) {
	waits := waitingMessage("acme", "waits")
	waits.ArrivedAt, waits.Log, waits.Number = noon, "other", 7
	lower := waitingMessage("beta", "lower")
	lower.ArrivedAt, lower.Log, lower.Number = noon.Add(time.Hour), "third", 4
	s.putInbox(waits, lower,
		selection("acme", "log", 1, noon.Add(-time.Second)), selection("acme", "log", 2, noon), selection("acme", "log", 3, noon.Add(time.Second)),
		selection("beta", "third", 3, noon), selection("beta", "third", 5, noon), selection("zoe", "log", 5, noon.Add(time.Second)))
	s.reached("log", 10)
	s.reached("third", 10)
	s.purgeApplied(noon, 10, 3)
	s.same("selections of the tenant", s.applied("acme"), []string{"log-2", "log-3"})
	s.same("selections behind a message of their log", s.applied("beta"), []string{"third-5"})
	s.must(s.store.Inbox().DeleteInbox(s.Context(), seqs(s.takeInbox(noon.Add(time.Hour), 10, 10))...))
	s.purgeApplied(noon, 10, 3)
}

func inboxEnded(s *suite) {
	ctx, end := context.WithCancel(s.Context())
	end()
	if err := s.store.Inbox().PutInbox(ctx, waitingMessage("acme", "m")); err == nil {
		s.Error("put a message for a context that has ended")
	}
	s.same("what waits", s.inboxCounts(""), []timer.InboxCount{})
}
