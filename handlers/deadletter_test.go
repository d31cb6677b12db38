package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/digest"
	"github.com/event-service-agent/timer-service/timer"
)

// A stuck broker takes nothing for topics with a word in their name, and is slow with all
// others.
type stuck struct {
	broker.Publisher
	word string
}

func (s stuck) Publish(ctx context.Context, messages ...broker.Message) []error {
	if strings.Contains(messages[0].Topic, s.word) {
		<-ctx.Done()
		return []error{ctx.Err()}
	}
	time.Sleep(10 * time.Millisecond)
	return []error{nil}
}

// TestTopicOfDeadLettersThatTakesNothingHoldsFewMessages: those that wait for it keep
// messages of all tenants from being handled.
func TestTopicOfDeadLettersThatTakesNothingHoldsFewMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &deadLetters{
			pub: stuck{word: "bad"}, routing: broker.NATSRouting(), clock: timer.ClockFunc(time.Now),
			log: slog.New(slog.DiscardHandler), refused: digest.New(func(...any) {}), topics: make(map[string]*turns),
		}
		defer d.refused.Flush()
		const each = 4000
		var waiting, failed [2]atomic.Int64
		for i, tenant := range []string{"bad", "good"} {
			waiting[i].Store(each)
			for n := range each {
				msg := message.NewMessage(fmt.Sprint(n), fmt.Appendf(nil, `{"id":"%d","tenantId":"%s"}`, n, tenant))
				msg.SetContext(&delivery{Context: t.Context(), values: t.Context(), msg: msg})
				go func() {
					defer waiting[i].Add(-1)
					if d.Publish(poisonTopic, msg) != nil {
						failed[i].Add(1)
					}
				}()
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if waiting[0].Load() > maxUnderWay || waiting[1].Load() > 0 || failed[1].Load() > 0 {
			t.Errorf("%d wait for the topic that takes nothing and %d for the other, where %d failed", waiting[0].Load(), waiting[1].Load(), failed[1].Load())
		}
		time.Sleep(publishTimeout)
		synctest.Wait()
		if waiting[0].Load() > 0 || failed[0].Load() != each || len(d.topics) > 0 {
			t.Errorf("%d wait, %d failed, %d topics are remembered", waiting[0].Load(), failed[0].Load(), len(d.topics))
		}
	})
}
