package postgres

import (
	"testing"
	"testing/synctest"
	"time"
)

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
		want("the first read", f.start(), time.Time{})
		want("a claim before it ends", f.get(), time.Time{})
		f.found(at(10))
		want("the second read", f.start(), at(10))
		f.set(at(7))
		f.set(at(9))
		f.found(at(10)) // it did not see what was committed meanwhile
		want("a claim", f.get(), at(7))
		want("the third read", f.start(), at(7))
		f.found(at(7))
		f.set(at(20))
		want("a later timer changes nothing", f.get(), at(7))
		time.Sleep(fullInterval)
		want("a second later", f.start(), time.Time{})
		f.found(at(3)) // of another instance
		want("a claim", f.get(), at(3))
		want("and a read", f.start(), at(3))
	})
}
