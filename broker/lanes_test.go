package broker_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/event-service-agent/timer-service/broker"
)

func TestLanesKeepTheOrderOfAKey(t *testing.T) {
	t.Parallel()
	const keys, each = 50, 200
	var lanes broker.Lanes
	var mu sync.Mutex
	got := make(map[string][]int)
	busy := make(map[string]bool)
	for n := range each {
		for k := range keys {
			key := fmt.Sprint("key-", k)
			lanes.Go(key, func() {
				mu.Lock()
				if busy[key] {
					t.Errorf("%s runs twice at once", key)
				}
				busy[key] = true
				got[key] = append(got[key], n)
				mu.Unlock()
				mu.Lock()
				busy[key] = false
				mu.Unlock()
			})
		}
	}
	lanes.Wait()
	for key, numbers := range got {
		for i, n := range numbers {
			if n != i {
				t.Fatalf("%s: number %d ran as the %dth", key, n, i)
			}
		}
		if len(numbers) != each {
			t.Errorf("%s: %d of %d ran", key, len(numbers), each)
		}
	}
}

func TestLanesWaitForNoOtherKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lanes broker.Lanes
		release := make(chan struct{})
		var mu sync.Mutex
		var ran []string
		run := func(name string) func() {
			return func() {
				mu.Lock()
				defer mu.Unlock()
				ran = append(ran, name)
			}
		}
		lanes.Go("a", func() { <-release })
		lanes.Go("", func() { <-release })
		lanes.Go("a", run("behind"))
		lanes.Go("b", run("other key"))
		lanes.Go("", run("no key"))
		synctest.Wait()
		if len(ran) != 2 || ran[0] == "behind" || ran[1] == "behind" {
			t.Errorf("ran %v while the first waits", ran)
		}
		close(release)
		lanes.Wait()
		if len(ran) != 3 || ran[2] != "behind" {
			t.Errorf("ran %v", ran)
		}
		lanes.Go("a", run("again")) // a lane that ended begins anew
		lanes.Wait()
		if len(ran) != 4 {
			t.Errorf("ran %v", ran)
		}
	})
}

func TestLanesTakeWorkFromWork(t *testing.T) {
	t.Parallel()
	var lanes broker.Lanes
	n := 0
	var again func()
	again = func() {
		if n++; n < 1000 {
			lanes.Go("a", again)
		}
	}
	lanes.Go("a", again)
	lanes.Wait()
	if n != 1000 {
		t.Errorf("ran %d times", n)
	}
}
