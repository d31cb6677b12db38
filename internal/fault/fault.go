// Package fault makes stores and brokers fail on purpose in tests: every operation of every
// port, by its name. A call fails before it takes effect, or after. "Done, but reported as
// failed" is how real databases and brokers often fail.
package fault

import "errors"

// ErrInjected is wrapped by every injected failure.
var ErrInjected = errors.New("injected failure")

// A Kind says how a call fails.
type Kind int

// Kinds of failure.
const (
	None   Kind = iota // the call goes through
	Before             // the call fails and has no effect
	After              // the call takes effect and is reported as failed
)

// A Decide chooses how the next call of an operation, such as "schedule" or
// "publish", fails. It is called from many goroutines.
type Decide func(op string) Kind

// kind returns how the next call fails. A nil Decide never fails.
func (d Decide) kind(op string) Kind {
	if d == nil {
		return None
	}
	return d(op)
}

// call calls do, and fails as decided.
func (d Decide) call(op string, do func() error) error {
	kind := d.kind(op)
	if kind == Before {
		return ErrInjected
	}
	if err := do(); err != nil {
		return err
	}
	if kind == After {
		return ErrInjected
	}
	return nil
}
