package app_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// waits returns how many messages of a tenant, or of all, wait for a reason.
func (b *bench) waits(tenant timer.TenantID, reason timer.WaitReason) (n int64) {
	b.Helper()
	counts, err := b.store.Inbox().InboxCounts(b.Context(), tenant)
	must(b, err)
	for _, c := range counts {
		if c.Reason == reason {
			n += c.Messages
		}
	}
	return n
}

// TestWhatIsOverItsQuotaWaitsInItsOrder settles commands over a quota at once, and applies them
// in the order of their arrival when the quota allows them.
func TestWhatIsOverItsQuotaWaitsInItsOrder(t *testing.T) {
	onBrokers(t, func(b *bench) {
		b.serve(app.Options{Quotas: limiter(b, "acme", quota.Limits{Live: 1})})
		began := time.Now()
		var want []string
		for i := range 40 {
			call := fmt.Sprintf("call-%02d", i)
			b.schedule(call, began.Add(time.Minute)) // each is the only one that may wait, until it fires
			want = append(want, call)
			b.rest()
		}
		if waits := b.waits("acme", timer.WaitQuota); waits != 39 || b.stats().Scheduled != 1 {
			b.Errorf("%d wait, %+v", waits, b.stats())
		}
		if fired := b.fired(10 * time.Minute); fired != strings.Join(want, " ") || b.waits("acme", timer.WaitQuota) != 0 {
			b.Errorf("fired %s", fired)
		}
	})
}

// failsFor is a middleware of a host that fails for the messages of a tenant while it is broken.
func failsFor(tenant string, broken func() bool) message.HandlerMiddleware {
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(m *message.Message) ([]*message.Message, error) {
			if broken() && strings.Contains(string(m.Payload), strconv.Quote(tenant)) {
				return nil, errors.New("a key is missing")
			}
			return next(m)
		}
	}
}

// TestMiddlewareThatFailsDelaysNoOther has a host's middleware fail for one tenant, for an hour
// and for more messages than are in flight at once.
func TestMiddlewareThatFailsDelaysNoOther(t *testing.T) {
	longtest.NotShort(t)
	onBrokers(t, func(b *bench) {
		const messages = 4500
		broken := time.Now().Add(time.Hour)
		fails := func(next message.HandlerFunc) message.HandlerFunc {
			return func(m *message.Message) ([]*message.Message, error) {
				if strings.Contains(string(m.Payload), `"acme"`) && time.Now().Before(broken) {
					m.Payload = []byte("changed")
					return nil, errors.New("a key is missing")
				}
				return next(m)
			}
		}
		a, _ := b.serve(app.Options{Middleware: []message.HandlerMiddleware{fails}})
		other := b.watch("beta")
		b.sendMany("acme", messages, time.Now().Add(3*time.Hour))
		b.wait(time.Second)
		if waits := b.waits("acme", timer.WaitFailed); waits != messages {
			b.Errorf("after a second %d messages wait, want %d", waits, messages)
		}
		for range 60 {
			b.sendMany("beta", 1, time.Now())
			b.wait(time.Minute - time.Second)
		}
		if events, _, late := other.count(); events != 60 || late > time.Second {
			b.Errorf("%d events of the other tenant, %v late", events, late)
		}
		if c := b.check(a, "inbox"); !c.Red || !strings.Contains(c.Reason, "acme") {
			b.Errorf("check %+v, want it red, with the tenant", c)
		}
		b.wait(20 * time.Minute)
		if waits, stats := b.waits("", timer.WaitFailed), statsOf(b, b.store, "acme"); waits != 0 || stats.Scheduled != messages {
			b.Errorf("%d wait, %+v", waits, stats)
		}
		if c := b.check(a, "inbox"); c.Red {
			b.Errorf("check %+v", c)
		}
	})
}

// A denyingBroker takes no dead letters of some tenants.
type denyingBroker struct {
	broker.Broker
	topic func(topic string) bool
}

func (d *denyingBroker) Publisher() broker.Publisher { return deniedPublisher{d.Broker.Publisher(), d} }

type deniedPublisher struct {
	broker.Publisher
	denying *denyingBroker
}

func (d deniedPublisher) Publish(ctx context.Context, messages ...broker.Message) []error {
	results := make([]error, len(messages))
	for i, m := range messages {
		if results[i] = errDenied; !d.denying.topic(m.Topic + " " + m.Metadata.Get(envelope.HeaderTenantID)) {
			results[i] = d.Publisher.Publish(ctx, m)[0]
		}
	}
	return results
}

var errDenied = errors.New("permission denied")

// TestDeadLettersThatAreDeniedWait has the topic of one tenant take no dead letters for longer
// than a message may wait.
func TestDeadLettersThatAreDeniedWait(t *testing.T) {
	longtest.NotShort(t)
	onBrokers(t, func(b *bench) {
		var mu sync.Mutex
		denied := true
		own := b.broker
		b.broker = &denyingBroker{own, func(topic string) bool {
			mu.Lock()
			defer mu.Unlock()
			return denied && strings.HasSuffix(topic, " acme")
		}}
		a, _ := b.serve(app.Options{Inbox: handlers.InboxLimits{MaxWait: 2 * time.Hour}})
		acme, beta := b.watch("acme"), b.watch("beta")
		for i := range 100 {
			for _, tenant := range []timer.TenantID{"acme", "beta"} {
				b.publish(tenant, fmt.Sprint(tenant, i), fmt.Appendf(nil, `{"id":"bad-%d","tenantId":"%s","type":"ScheduleTimer"}`, i, tenant))
			}
		}
		b.wait(4 * time.Hour)
		if _, dead, _ := beta.count(); dead != 100 || b.waits("acme", timer.WaitFailed) != 100 || b.waits("", timer.WaitFailed) != 100 {
			b.Errorf("%d dead letters of beta, %d messages of acme wait", dead, b.waits("acme", timer.WaitFailed))
		}
		if c := b.check(a, "inbox"); !c.Red || !strings.Contains(c.Reason, "acme") {
			b.Errorf("check %+v", c)
		}
		mu.Lock()
		denied = false
		mu.Unlock()
		b.wait(6 * time.Minute)
		if _, dead, _ := acme.count(); dead != 100 || b.waits("", timer.WaitFailed) != 0 {
			b.Errorf("%d dead letters of acme, %d wait", dead, b.waits("", timer.WaitFailed))
		}
	})
}

// TestMessagesWaitNoLongerThanTheyMay makes them dead letters that say where they came from
// and why. A dead letter with an invalid body keeps its reason.
func TestMessagesWaitNoLongerThanTheyMay(t *testing.T) {
	longtest.NotShort(t)
	onBrokers(t, func(b *bench) {
		a, _ := b.serve(app.Options{
			Retention:  time.Hour, // so they wait three quarters of it
			Quotas:     limiter(b, "acme", quota.Limits{Live: 1}),
			Middleware: []message.HandlerMiddleware{failsFor("beta", func() bool { return true })},
		})
		letters, err := b.broker.Subscriber("letters").Subscribe(b.Context(), b.broker.Routing().DeadLettersOf("acme"))
		must(b, err)
		due := time.Now().Add(100 * time.Hour)
		b.schedule("first", due)
		b.rest()
		b.schedule("second", due)
		b.rest()
		b.wait(44 * time.Minute)
		select {
		case m := <-letters:
			b.Fatalf("a dead letter too soon: %v", m.Metadata)
		default:
		}
		b.wait(2 * time.Minute)
		m := <-letters
		m.Ack()
		get := m.Metadata.Get
		if get(envelope.HeaderDeadLetterReason) != "over_quota" || !strings.Contains(get(envelope.HeaderDeadLetterDetail), "live_timers") || get(envelope.HeaderDeadLetterTopic) != b.broker.Routing().CommandsOf("acme") ||
			b.waits("", timer.WaitQuota) != 0 {
			b.Errorf("dead letter %v", m.Metadata)
		}
		if b.broker.Routing().DeadLettersOf("beta") != b.broker.Routing().DeadLettersOf("acme") {
			letters, err = b.broker.Subscriber("letters").Subscribe(b.Context(), b.broker.Routing().DeadLettersOf("beta"))
			must(b, err)
		}
		b.sendMany("beta", 1, due)
		m = <-letters
		m.Ack()
		if get := m.Metadata.Get; get(envelope.HeaderDeadLetterReason) != "not_handled" || !strings.Contains(get(envelope.HeaderDeadLetterDetail), "a key is missing") || get(envelope.HeaderTenantID) != "beta" {
			b.Errorf("dead letter %v", m.Metadata)
		}
		b.wait(10 * time.Second)
		if waits := b.waits("", timer.WaitFailed); waits != 0 || b.check(a, "inbox").Red {
			b.Errorf("%d wait, %+v", waits, b.check(a, "inbox"))
		}
	})
}

// TestATenantAtItsBound has its commands over a quota be dead letters, and if others fail none
// of its commands be taken, until some no longer wait. Another tenant notices nothing.
func TestATenantAtItsBound(t *testing.T) {
	for name, limits := range map[string]handlers.InboxLimits{"of messages": {Messages: 10}, "of bytes": {Bytes: 2250}} {
		t.Run(name, func(t *testing.T) { tenantAtItsBound(t, limits) })
	}
}

func tenantAtItsBound(t *testing.T, limits handlers.InboxLimits) {
	onBrokers(t, func(b *bench) {
		var broken atomic.Bool
		k := limiter(b, "acme", quota.Limits{Live: 1})
		a, _ := b.serve(app.Options{Quotas: k, Inbox: limits, Middleware: []message.HandlerMiddleware{failsFor("acme", broken.Load)}})
		acme, beta := b.watch("acme"), b.watch("beta")
		due := time.Now().Add(100 * time.Hour)
		for range 20 {
			b.sendMany("acme", 1, due)
			b.rest()
		}
		if _, dead, _ := acme.count(); dead != 9 || b.waits("acme", timer.WaitQuota) != 10 {
			b.Errorf("%d dead letters, %d wait; want 9 and 10", dead, b.waits("acme", timer.WaitQuota))
		}
		if c := b.check(a, "inbox"); c.Red || !strings.Contains(c.Reason, "acme") {
			b.Errorf("check %+v, want it name the tenant", c)
		}
		broken.Store(true)
		b.sendMany("acme", 50, due)
		b.sendMany("beta", 50, time.Now())
		b.wait(time.Second)
		if events, dead, late := beta.count(); events != 50 || dead != 0 || late > time.Second {
			b.Errorf("%d events and %d dead letters of beta, %v late", events, dead, late)
		}
		if c := b.check(a, "inbox"); !c.Red || !strings.Contains(c.Reason, "acme") {
			b.Errorf("check %+v, want it red, with the tenant", c)
		}
		broken.Store(false)
		must(b, k.Use(quota.Config{}))
		b.wait(10 * time.Minute)
		if stats := statsOf(b, b.store, "acme"); stats.Scheduled != 61 || b.waits("", timer.WaitQuota)+b.waits("", timer.WaitFailed) != 0 || b.check(a, "inbox").Red {
			b.Errorf("%+v, %+v; want all timers but those with a dead letter", stats, b.check(a, "inbox"))
		}
	})
}

// TestHostileTenantsFillTheInbox has a thousand of them be over their quota, together by more
// than the inbox may hold.
func TestHostileTenantsFillTheInbox(t *testing.T) {
	longtest.NotShort(t)
	onBrokers(t, func(b *bench) {
		const tenants, each, limit = 1000, 10, 1 << 20
		k, err := quota.New(quota.Config{Default: quota.Limits{Live: 1}, Tenants: map[timer.TenantID]quota.Limits{"beta": {}}}, timer.ClockFunc(time.Now), quota.Options{})
		must(b, err)
		a, _ := b.serve(app.Options{Quotas: k, Inbox: handlers.InboxLimits{TotalBytes: limit}})
		beta := b.watch("beta")
		due := time.Now().Add(100 * time.Hour)
		for range each {
			for i := range tenants {
				b.sendMany(timer.TenantID(fmt.Sprint("hostile-", i)), 1, due)
			}
			b.sendMany("beta", 1, time.Now())
			b.wait(100 * time.Millisecond)
		}
		b.wait(time.Second)
		counts, err := b.store.Inbox().InboxCounts(b.Context(), "")
		must(b, err)
		bytes := int64(0)
		for _, c := range counts {
			bytes += c.Bytes
		}
		if events, _, late := beta.count(); events != each || late > time.Second || bytes > limit+limit/10 || bytes < limit/2 {
			b.Errorf("%d events of beta, %v late; %d bytes wait, of %d tenants", events, late, bytes, len(counts))
		}
		if c := b.check(a, "inbox"); !c.Red || !strings.Contains(c.Reason, "hostile-") {
			b.Errorf("check %+v, want it red, with the tenant that has most", c)
		}
	})
}

// TestFailedCommitsAreNoWayRoundAQuota has commits fail before and after they took effect, and
// the service restart, while more commands come than may wait.
func TestFailedCommitsAreNoWayRoundAQuota(t *testing.T) {
	onBrokers(t, func(b *bench) {
		const commands, live = 200, 20
		for seed := range uint64(5) {
			random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
			var mu sync.Mutex
			faulty := &fault.Store{Full: b.store, Decide: func(name string) fault.Kind {
				mu.Lock()
				defer mu.Unlock()
				if random.IntN(4) > 0 || !slices.Contains([]string{"schedule", "put_inbox", "defer_inbox", "delete_inbox", "take_inbox"}, name) {
					return fault.None
				}
				return []fault.Kind{fault.Before, fault.After}[random.IntN(2)]
			}}
			tenant := timer.TenantID(fmt.Sprint("acme-", seed))
			most, rests := int64(0), rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a test
			due := time.Now().Add(100 * time.Hour)
			for range 10 {
				k := limiter(b, tenant, quota.Limits{Live: live})
				a := b.app(faulty, app.Options{Quotas: k})
				stop := b.run(a)
				b.sendMany(tenant, commands/10, due)
				b.wait(time.Duration(rests.IntN(20_000)) * time.Millisecond)
				stop()
				most = max(most, statsOf(b, b.store, tenant).Scheduled)
			}
			if most > live || most < live/2 {
				b.Errorf("seed %d: %d timers, %d may wait", seed, most, live)
			}
			stop := b.run(b.app(b.store, app.Options{}))
			b.wait(10 * time.Minute)
			stop()
			if stats := statsOf(b, b.store, tenant); stats.Scheduled != commands {
				b.Errorf("seed %d: %+v, want all %d commands", seed, stats, commands)
			}
		}
	})
}

// TestATenantAtItsBoundFillsNothingOfOthers has more of its messages fail than are in flight at
// once.
func TestATenantAtItsBoundFillsNothingOfOthers(t *testing.T) {
	longtest.NotShort(t)
	onBrokers(t, func(b *bench) {
		var broken atomic.Bool
		broken.Store(true)
		b.serve(app.Options{Inbox: handlers.InboxLimits{Messages: 10}, Middleware: []message.HandlerMiddleware{failsFor("acme", broken.Load)}})
		acme, beta := b.watch("acme"), b.watch("beta")
		const messages = 6000
		for range 60 {
			b.sendMany("acme", messages/60, time.Now().Add(100*time.Hour))
			b.sendMany("beta", 1, time.Now())
			b.wait(time.Second)
		}
		if events, dead, late := beta.count(); events != 60 || dead != 0 || late > time.Second {
			b.Errorf("%d events and %d dead letters of beta, %v late", events, dead, late)
		}
		broken.Store(false)
		b.wait(10 * time.Minute)
		if _, dead, _ := acme.count(); dead == 0 || int64(dead)+statsOf(b, b.store, "acme").Scheduled != messages {
			b.Errorf("%d dead letters, %+v; want %d in all", dead, statsOf(b, b.store, "acme"), messages)
		}
	})
}
