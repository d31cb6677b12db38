package outbox

import (
	"errors"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
)

// unansweredFor is how long the head publishes nothing to a topic that did not answer,
// unless that answers or times out again meanwhile.
const unansweredFor = 30 * time.Second

// unanswered is the topics whose last publish timed out, and when. Their rows would hold
// the in-flight slots of the head, so it leaves them to the retries.
type unanswered struct {
	mu sync.Mutex
	at map[string]time.Time
}

// note notes the results of a batch. A topic that has taken one of its rows answers, and
// one of events may still do so in other partitions.
func (u *unanswered) note(now time.Time, timedOut bool, messages []broker.Message, errs []error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, err := range errs {
		if !timedOut || err == nil || errors.Is(err, broker.ErrRefused) || errors.Is(err, broker.ErrUnavailable) {
			continue
		}
		if _, part := errors.AsType[broker.PartitionError](err); part && !envelope.IsReceipt(messages[i].Metadata.Get(envelope.HeaderType)) {
			continue
		}
		if u.at == nil {
			u.at = make(map[string]time.Time)
		}
		u.at[messages[i].Topic] = now
	}
	for i := range errs {
		if len(u.at) > 0 && errs[i] == nil {
			delete(u.at, messages[i].Topic)
		}
	}
}

// has reports whether a topic does not answer.
func (u *unanswered) has(now time.Time, topic string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	at, is := u.at[topic]
	if is && now.Sub(at).Abs() > unansweredFor {
		delete(u.at, topic)
		is = false
	}
	return is
}

// why says why a row is left to the retries: its topic does not answer.
func (u *unanswered) why(now time.Time, topic string) (destination, reason string) {
	if !u.has(now, topic) {
		return "", ""
	}
	return topic, "the topic did not answer in time"
}
