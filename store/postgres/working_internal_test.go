package postgres

import (
	"testing"
	"testing/synctest"
)

// TestCallInsideACallDoesNotWaitForClose begins a call inside another one, which Close
// waits for.
func TestCallInsideACallDoesNotWaitForClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorking()
		w.wait() // for none
		closed := make(chan struct{}, 2)
		w.begin()
		for range 2 {
			go func() {
				w.wait()
				closed <- struct{}{}
			}()
		}
		synctest.Wait()
		w.begin()
		w.end()
		synctest.Wait()
		if len(closed) > 0 {
			t.Error("closed while a call was at work")
		}
		w.end()
		synctest.Wait()
		if len(closed) != 2 {
			t.Error("not closed after the last call")
		}
	})
}
