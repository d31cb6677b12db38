package admin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// slowBroker has a number of dead letters, of which it reads nine in ten seconds.
type slowBroker struct {
	broker.Broker
	letters int
}

func (s slowBroker) VisitDeadLetters(ctx context.Context, _ timer.TenantID, _ string, visit broker.DeadLetterVisit) error {
	for i := range s.letters {
		select {
		case <-time.After(1100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		m := message.NewMessage(fmt.Sprint("letter-", i), nil)
		m.Metadata.Set(envelope.HeaderTenantID, "acme")
		m.Metadata.Set(envelope.HeaderMessageID, m.UUID)
		if _, err := visit([]*message.Message{m}); err != nil {
			return err
		}
	}
	if s.letters == 0 {
		<-ctx.Done()
	}
	return ctx.Err()
}

// TestDeadLettersOfSlowBrokers are shown as far as they can be read in time.
func TestDeadLettersOfSlowBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			letters int
			query   string
			code    int
			says    string
		}{
			"all of them, in more time than a page of timers has": {5, "", 200, "letter-4"},
			"more than can be read":                               {100, "", 200, "letter-8"},
			"a page that begins before the end of the time":       {100, "after=letter-5", 200, "letter-8"},
			"a page that begins behind it":                        {100, "after=letter-50", 503, "too many dead letters to read up to this page"},
			"a page that begins at it":                            {100, "after=letter-8", 503, "too many dead letters to read up to this page"},
			"a broker that does not answer":                       {0, "after=letter-50", 503, "did not answer in time"},
			"one that is gone":                                    {5, "after=letter-50", 404, "gone"},
		} {
			b := slowBroker{gochannel.New(gochannel.Options{}, quiet), test.letters}
			s := admin.New(quiet, admin.Options{Monitor: admin.NewMonitor(nil, quiet), Timers: unreadableTimers{}, Broker: b})
			if code, text := get(s, "/v1/dead-letters?tenant=acme&"+test.query); code != test.code || !strings.Contains(text, test.says) {
				t.Errorf("%s: %d %s", name, code, text)
			}
			if code, text := get(s, "/dead-letters?tenant=acme&"+test.query); code != test.code || !strings.Contains(text, test.says) {
				t.Errorf("%s, the page: %d %s", name, code, text)
			}
		}
	})
}
