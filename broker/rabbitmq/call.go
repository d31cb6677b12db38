package rabbitmq

import (
	"errors"
	"fmt"
	"sync"
)

// A call is one call of Publish.
type call struct {
	done chan struct{} // closed when all messages have an answer

	mu     sync.Mutex
	left   int // messages without an answer
	failed failures
}

func newCall(messages int) *call { return &call{done: make(chan struct{}), left: messages} }

// answer notes what became of messages.
func (c *call) answer(messages int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed.add(messages, err)
	}
	if c.left -= messages; c.left == 0 {
		close(c.done)
	}
}

// failure returns an error if something went wrong already.
func (c *call) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failed.errs) == 0 {
		return nil
	}
	return c.failed.errs[0]
}

// failures are what went wrong in one call. A thousand messages that fail for
// one reason are one failure.
type failures struct {
	errs   []error
	counts []int
}

func (f *failures) add(messages int, err error) {
	for i, known := range f.errs {
		if known.Error() == err.Error() {
			f.counts[i] += messages
			return
		}
	}
	f.errs = append(f.errs, err)
	f.counts = append(f.counts, messages)
}

// join returns all failures as one error, nil if there is none.
func (f *failures) join(messages int) error {
	var err error
	for i, e := range f.errs {
		err = errors.Join(err, fmt.Errorf("%d of %d messages: %w", f.counts[i], messages, e))
	}
	return err
}
