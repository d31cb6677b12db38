package outbox

import (
	"errors"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
)

// unansweredFor is how long the head publishes nothing to a topic after a publish that
// timed out. An answer ends that time earlier, and another timeout begins it anew.
const unansweredFor = 30 * time.Second

// unanswered remembers the topics whose last publish timed out, and when. Their rows would
// take up the window of the head, so the head leaves them to the retries.
type unanswered struct {
	mu sync.Mutex
	at map[string]time.Time
}

// note notes the results of a batch. A topic that has taken one row of the batch answers, even
// if a partition of it does not.
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

// why returns the destination of a row and the reason to leave it to the retries, if its
// topic does not answer.
func (u *unanswered) why(now time.Time, topic string) (destination, reason string) {
	if !u.has(now, topic) {
		return "", ""
	}
	return topic, "the topic did not answer in time"
}
