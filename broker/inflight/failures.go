package inflight

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Failures are the reasons why subscriptions of a broker get no messages. The zero value
// has none.
type Failures struct {
	mu  sync.Mutex
	why map[any]error
}

// Set notes why a subscription gets no messages, or with nil that it gets them. It reports
// whether that differs from the reason before.
func (f *Failures) Set(subscription any, why error) (news bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why == nil {
		f.why = make(map[any]error)
	}
	news = fmt.Sprint(f.why[subscription]) != fmt.Sprint(why)
	if f.why[subscription] = why; why == nil {
		delete(f.why, subscription)
	}
	return news
}

// Err returns the reasons of all subscriptions, joined and sorted, or nil if there are none.
func (f *Failures) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	byText := func(a, b error) int { return strings.Compare(a.Error(), b.Error()) }
	return errors.Join(slices.SortedFunc(maps.Values(f.why), byText)...)
}
