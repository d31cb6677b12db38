package handlers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/timer"
)

// namedStore is a store that only has a name.
type namedStore struct {
	Store
	name string
}

func TestLastTrySharesNoCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &Handlers{working: t.Context(), store: namedStore{name: "batch"}, opt: Options{Unbatched: namedStore{name: "alone"}}}
		var tries []string
		try := h.retry(func(msg *message.Message) ([]*message.Message, error) {
			tries = append(tries, deliveryOf(msg).store.(namedStore).name)
			return nil, errors.New("database is locked")
		})
		msg := message.NewMessage("id", nil)
		h.newDelivery(msg)
		if _, err := try(msg); err == nil {
			t.Error("no error though each try failed")
		}
		if want := []string{"batch", "batch", "alone"}; !slices.Equal(tries, want) {
			t.Errorf("tried with %v, want %v", tries, want)
		}
	})
}

// TestLockedMessageSharesNoCommitAgain has another transaction hold a lock for a while.
func TestLockedMessageSharesNoCommitAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &Handlers{working: t.Context(), stopping: t.Context(), store: namedStore{name: "batch"}, opt: Options{Unbatched: namedStore{name: "alone"}}, breaker: newBreaker()}
		began := time.Now()
		var tries []string
		try := h.retry(h.breakCircuit(func(msg *message.Message) ([]*message.Message, error) {
			tries = append(tries, deliveryOf(msg).store.(namedStore).name)
			if time.Since(began) < time.Minute {
				return nil, fmt.Errorf("schedule: %w", timer.ErrLocked)
			}
			return nil, nil
		}))
		msg := message.NewMessage("id", nil)
		h.newDelivery(msg)
		if _, err := try(msg); err != nil {
			t.Errorf("left to the broker, which shares its next commit with others: %v", err)
		}
		if tries[0] != "batch" || slices.Contains(tries[1:], "batch") {
			t.Errorf("tried with %v, want the batch once", tries)
		}
		if h.Failures() > 0 {
			t.Error("the breaker was opened, all other commands wait")
		}
	})
}

// TestWhileTheStoreFailsAMessageIsTriedOn has a store that is away for a while, and
// one that refuses a message but works.
func TestWhileTheStoreFailsAMessageIsTriedOn(t *testing.T) {
	t.Parallel()
	locked := errors.New("database is locked")
	for name, test := range map[string]struct {
		away  time.Duration // of the store
		fails time.Duration // of the message
		want  error
	}{
		"the store is away":               {time.Hour, time.Hour, nil},
		"the store works":                 {0, time.Hour, locked},
		"the store works, the message no": {time.Minute, time.Hour, locked},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				h := &Handlers{working: t.Context(), stopping: t.Context(), opt: Options{StoreWorks: func(context.Context) error {
					if time.Since(began) < test.away {
						return locked
					}
					return nil
				}}}
				try := h.retry(func(*message.Message) ([]*message.Message, error) {
					if time.Since(began) < test.fails {
						return nil, locked
					}
					return nil, nil
				})
				msg := message.NewMessage("id", nil)
				h.newDelivery(msg)
				if _, err := try(msg); !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v", err, test.want)
				}
				if took := time.Since(began); took < test.away {
					t.Errorf("left to the broker after %v, while the store was away", took)
				}
			})
		})
	}
}

// TestStopEndsTheTriesOfAMessage: while the store is away.
func TestStopEndsTheTriesOfAMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		locked := errors.New("database is locked")
		stopping, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		h := &Handlers{working: t.Context(), stopping: stopping, opt: Options{StoreWorks: func(context.Context) error { return locked }}}
		began := time.Now()
		msg := message.NewMessage("id", nil)
		h.newDelivery(msg)
		_, err := h.retry(func(*message.Message) ([]*message.Message, error) { return nil, locked })(msg)
		if took := time.Since(began); !errors.Is(err, locked) || took > time.Minute+time.Second {
			t.Errorf("error %v after %v, want one a second after the stop", err, took)
		}
	})
}
