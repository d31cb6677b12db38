package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// hostile is shown as text, wherever it comes from. It is a valid id.
const hostile = `"><img/src=x/onerror=hacked()>'<script>hacked()</script>`

// A choosy broker refuses events of the tenant "refused", as long as it does.
type choosy struct {
	broker.Broker
	accepts atomic.Bool
}

func (b *choosy) Publisher() broker.Publisher { return choosyPublisher{b.Broker.Publisher(), b} }

type choosyPublisher struct {
	broker.Publisher
	b *choosy
}

func (p choosyPublisher) Publish(ctx context.Context, messages ...broker.Message) []error {
	results := make([]error, len(messages))
	for i, m := range messages {
		if m.Metadata.Get(envelope.HeaderTenantID) == "refused" && m.Metadata.Get(envelope.HeaderType) == envelope.TypeDueTimeReached && !p.b.accepts.Load() {
			results[i] = fmt.Errorf("%w: %s", broker.ErrRefused, hostile)
			continue
		}
		results[i] = p.Publisher.Publish(ctx, m)[0]
	}
	return results
}

// A site is a whole service with its dashboard.
type site struct {
	url      string // of the dashboard
	readOnly string // of another one, which changes nothing
	guarded  string // of another one, which needs a token
	store    *sqlite.Store
	broker   *choosy
	browser  context.Context // of Chromium, with no tab
}

// newSite starts a service with timers in each state, dead letters and a parked event,
// with hostile text in them.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{store: database(t), broker: &choosy{Broker: channel(t)}}
	counters := new(app.Counters)
	a, err := app.New(s.store, s.broker, quiet, app.Options{Counters: counters})
	if err != nil {
		t.Fatal(err)
	}
	during(t, a.Run)
	<-a.Running()
	history := admin.NewHistory(counters, s.store.Stats)
	during(t, history.Run)
	monitor := admin.NewMonitor(a.Checks, quiet)
	during(t, monitor.Run)
	limits, err := quota.New(quota.Config{Default: quota.Limits{Live: 100_000}, Tenants: map[timer.TenantID]quota.Limits{"acme": {Accept: quota.Rate{PerSecond: 2000}, Fire: quota.Rate{PerSecond: 1000}, Horizon: 365 * 24 * time.Hour}}}, timer.ClockFunc(time.Now), quota.Options{})
	if err != nil {
		t.Fatal(err)
	}
	options := admin.Options{Monitor: monitor, Timers: s.store, History: history, Broker: s.broker, Operator: s.store, Service: a, Quotas: limits}
	serve := func(opt admin.Options) string {
		server := httptest.NewServer(admin.New(quiet, opt))
		t.Cleanup(server.Close)
		return server.URL + opt.Prefix
	}
	s.url = serve(options)
	options.ReadOnly, options.Prefix = true, "/below"
	s.readOnly = serve(options)
	options.Prefix, options.Token = "/guarded", "secret"
	s.guarded = serve(options)
	s.fill(t)
	return s
}

func (s *site) fill(t *testing.T) {
	t.Helper()
	now := time.Now()
	schedule := func(tenant, call string, in time.Duration) {
		c := command(tenant, call, now.Add(in), now.UnixMilli())
		c.CommandID, c.CorrelationID, c.Data = tenant+call, hostile, strconv.Quote(hostile+strings.Repeat(" long", 50))
		s.publish(t, s.broker.Routing().CommandsOf(c.TenantID), message.NewMessage(c.CommandID, envelope.Schedule(c)))
	}
	for i := range 60 {
		schedule("acme", fmt.Sprintf("order-%02d", i), time.Duration(i+5)*time.Minute)
	}
	schedule("acme", "fired", 0)
	schedule("refused", "...", 0)
	schedule("refused", "again", 0)
	schedule("forgotten", "order-1", time.Hour)
	for i := range 3 {
		s.publish(t, s.broker.Routing().CommandsOf("acme"), message.NewMessage(fmt.Sprint("bad-", i), fmt.Appendf(nil, `{"id":"bad","tenantId":"acme","timestampMs":%d,"payload":{},"type":%q}`, now.UnixMilli(), hostile)))
	}
	dead := message.NewMessage("of-another", []byte(hostile))
	for _, name := range []string{
		envelope.HeaderDeadLetterReason, envelope.HeaderDeadLetterDetail, envelope.HeaderDeadLetterTopic, envelope.HeaderDeadLetterPosition,
		envelope.HeaderDeadLetterOriginalID, envelope.HeaderCorrelationID, envelope.HeaderMessageID,
	} {
		dead.Metadata.Set(name, hostile)
	}
	s.publish(t, s.broker.Routing().DeadLettersOf("acme"), dead)
	eventually(t, "timers, fired and parked", func() bool {
		st, err := s.store.Stats(t.Context(), "")
		return err == nil && st.Scheduled == 61 && st.Reached == 3 && st.Parked == 2
	})
}

// state returns that of a timer, empty if there is none.
func (s *site) state(t *testing.T, tenant, call string) timer.State {
	t.Helper()
	e, err := s.store.Get(t.Context(), timer.Key{TenantID: timer.TenantID(tenant), ServiceCallID: timer.ServiceCallID(call)})
	if err != nil && !errors.Is(err, timer.ErrNotFound) {
		t.Fatal(err)
	}
	return e.State
}

func (s *site) publish(t *testing.T, topic string, m *message.Message) {
	t.Helper()
	if err := s.broker.Publisher().Publish(t.Context(), broker.Message{Topic: topic, Message: m})[0]; err != nil {
		t.Fatal(err)
	}
}

// eventually polls until something has happened.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !happened() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited a minute in vain for %s", what)
		}
	}
}
