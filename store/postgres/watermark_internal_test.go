package postgres

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestATimerOfAHostIsExpectedForASecond has a host schedule in a transaction that is open
// while nothing else waits, and the poller search meanwhile.
func TestATimerOfAHostIsExpectedForASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		noon := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
		f := watermark{began: time.Now()}
		f.start()
		f.expect(noon)
		for range 10 {
			time.Sleep(fullInterval / 11)
			f.start()
		}
		f.found(noon.Add(time.Minute))
		if got := f.get(); !got.Equal(noon) {
			t.Errorf("reads from %v on, want %v", got, noon)
		}
	})
}

func TestWatermarkRisesWithWhatIsFoundAndFallsWithWhatIsSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		noon := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
		at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
		f := watermark{began: time.Now()}
		want := func(what string, got, want time.Time) {
			t.Helper()
			if !got.Equal(want) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		full := func(what string, want bool) {
			t.Helper()
			if got := f.start(); got != want {
				t.Errorf("%s: reads the whole index: %v, want %v", what, got, want)
			}
		}
		full("the first search", false)
		want("the first search", f.get(), time.Time{})
		f.found(at(10))
		full("the second search", false)
		f.set(at(7))
		f.set(at(9))
		f.found(at(10)) // it did not see what was committed meanwhile
		want("a claim", f.get(), at(7))
		full("the third search", false)
		f.found(at(7))
		f.set(at(20))
		want("a later timer changes nothing", f.get(), at(7))
		time.Sleep(fullInterval)
		full("a second later", true)
		full("meanwhile", false)
		f.set(at(3)) // of another instance
		f.rest(time.Millisecond)
		f.found(at(7))
		want("a claim", f.get(), at(3))
		time.Sleep(fullInterval - 2*time.Millisecond)
		full("just before another second", false)
		time.Sleep(time.Millisecond)
		full("another second later", true)
		time.Sleep(time.Second)
		f.rest(time.Second)
		time.Sleep(48 * time.Second)
		full("after a read that took a second", false)
		time.Sleep(time.Second)
		full("50 seconds after it began", true)
	})
}
