package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
)

func TestUntil(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		after time.Duration // when done says so
		err   error
		want  error
		most  time.Duration
	}{
		"at once":                {0, nil, nil, 0},
		"soon":                   {10 * time.Millisecond, nil, nil, 20 * time.Millisecond},
		"later":                  {time.Second, nil, nil, 1050 * time.Millisecond},
		"an error":               {time.Second, broken, broken, 1050 * time.Millisecond},
		"the context ends first": {time.Hour, nil, context.DeadlineExceeded, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				err := pause.Until(ctx, func() (bool, error) {
					if time.Since(began) < test.after {
						return false, nil
					}
					return test.err == nil, test.err
				})
				if took := time.Since(began); !errors.Is(err, test.want) || took > test.most {
					t.Errorf("%v after %v, want %v after at most %v", err, took, test.want, test.most)
				}
			})
		})
	}
}
