package fault_test

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// ports are the ports that an app uses, with the methods that can't fail.
var ports = []struct {
	port   reflect.Type
	except []string
}{
	{reflect.TypeFor[timer.Store](), nil},
	{reflect.TypeFor[timer.Tx](), nil},
	{reflect.TypeFor[timer.Reader](), nil},
	{reflect.TypeFor[timer.Operator](), nil},
	{reflect.TypeFor[timer.Recoverer](), []string{"CommitPositions"}},
	{reflect.TypeFor[timer.Inbox](), nil},
	{reflect.TypeFor[transactor](), nil},
	{reflect.TypeFor[outbox.Taker](), nil},
	{reflect.TypeFor[outbox.Table](), nil},
	{reflect.TypeFor[outbox.Shards](), nil},
	{reflect.TypeFor[broker.Publisher](), nil},
	{reflect.TypeFor[message.Subscriber](), []string{"Close"}},
}

// A transactor has transactions for a host, see app.Store.
type transactor interface {
	Transact(ctx context.Context, fn func(tx *sql.Tx) error) error
}

// An inner is a store whose parts are nil, so that a call that reaches it panics.
type inner struct{ fault.Full }

func (inner) Timers() timer.Reader { return nil }

func (inner) Operator() timer.Operator { return nil }

func (inner) Recovery() timer.Recoverer { return nil }

func (inner) Inbox() timer.Inbox { return nil }

func (inner) Outbox() outbox.Outbox { return outbox.Outbox{Table: struct{ outbox.Table }{}} }

func (inner) Update(_ context.Context, fn func(timer.Tx) error) error {
	if err := fn(nil); err != nil {
		return err
	}
	panic("reached")
}

// TestEveryOperationFails calls each method of each port by reflection, so that it does not
// forget a method that is added later.
func TestEveryOperationFails(t *testing.T) {
	t.Parallel()
	for _, p := range ports {
		for i := range p.port.NumMethod() {
			method := p.port.Method(i)
			if slices.Contains(p.except, method.Name) {
				continue
			}
			t.Run(p.port.Name()+"."+method.Name, func(t *testing.T) {
				t.Parallel()
				for kind, reaches := range map[fault.Kind]bool{fault.None: true, fault.Before: false, fault.After: true} {
					op := operation(method.Name)
					var asked []string
					w := wrapped(func(o string) fault.Kind {
						asked = append(asked, o)
						if o == op {
							return kind
						}
						return fault.None
					})
					reached, err := call(t, w, p.port, method.Name)
					if reached != reaches || errors.Is(err, fault.ErrInjected) == reaches {
						t.Errorf("kind %d: reached the wrapped store = %v, want %v: %v", kind, reached, reaches, err)
					}
					if !slices.Contains(asked, op) {
						t.Errorf("decided on %v, want %s among them", asked, op)
					}
				}
			})
		}
	}
}

// operation returns the name of the operation of a method.
func operation(method string) string {
	words := regexp.MustCompile(`[A-Z][a-z]*`).FindAllString(method, -1)
	return strings.ToLower(strings.Join(words, "_"))
}

// wrapped returns all types of this package that fail.
func wrapped(decide fault.Decide) []any {
	store := &fault.Store{Full: inner{}, Decide: decide}
	return []any{
		store, store.Timers(), store.Operator(), store.Recovery(), store.Inbox(), store.Outbox().Taker, store.Outbox().Table, &fault.Shards{Decide: decide},
		&fault.Publisher{Decide: decide}, &fault.Subscriber{Decide: decide},
	}
}

// call calls a method of a port on the wrapped value that has the port. It reports whether
// the call reached the inner value, and returns its error if not.
func call(t *testing.T, wrapped []any, port reflect.Type, method string) (reached bool, err error) {
	t.Helper()
	defer func() { reached = recover() != nil }()
	if port == reflect.TypeFor[timer.Tx]() {
		return false, wrapped[0].(timer.Store).Update(t.Context(), func(tx timer.Tx) error { return invoke(t, tx, method) })
	}
	for _, w := range wrapped {
		if reflect.TypeOf(w).Implements(port) {
			return false, invoke(t, w, method)
		}
	}
	t.Errorf("nothing has the port %v", port)
	return false, nil
}

// invoke calls a method with arguments that mean nothing.
func invoke(t *testing.T, on any, method string) error {
	t.Helper()
	m := reflect.ValueOf(on).MethodByName(method)
	args := make([]reflect.Value, m.Type().NumIn())
	for i := range args {
		switch in := m.Type().In(i); in {
		case reflect.TypeFor[context.Context]():
			args[i] = reflect.ValueOf(t.Context())
		case reflect.TypeFor[[]broker.Message]():
			args[i] = reflect.ValueOf(make([]broker.Message, 1))
		case reflect.TypeFor[func(timer.Tx) error]():
			args[i] = reflect.ValueOf(func(timer.Tx) error { return nil })
		case reflect.TypeFor[func(*sql.Tx) error]():
			args[i] = reflect.ValueOf(func(*sql.Tx) error { return nil })
		default:
			args[i] = reflect.Zero(in)
		}
	}
	invoke := m.Call
	if m.Type().IsVariadic() {
		invoke = m.CallSlice
	}
	results := invoke(args)
	switch last := results[len(results)-1].Interface().(type) {
	case error:
		return last
	case []error:
		return last[0]
	}
	return nil
}
