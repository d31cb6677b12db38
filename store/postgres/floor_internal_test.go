package postgres

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestFloorRisesWithWhatIsFoundAndFallsWithWhatIsSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		noon := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
		at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
		f := floor{began: time.Now()}
		want := func(what string, got, want time.Time) {
			t.Helper()
			if !got.Equal(want) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		want("the first look", f.start(), time.Time{})
		want("a claim before it ends", f.get(), time.Time{})
		f.found(at(10))
		want("the second look", f.start(), at(10))
		f.set(at(7))
		f.set(at(9))
		f.found(at(10)) // it did not see what was committed meanwhile
		want("a claim", f.get(), at(7))
		want("the third look", f.start(), at(7))
		f.found(at(7))
		f.set(at(20))
		want("a later timer changes nothing", f.get(), at(7))
		time.Sleep(fullLook)
		want("a second later", f.start(), time.Time{})
		f.found(at(3)) // of another instance
		want("a claim", f.get(), at(3))
		want("and a look", f.start(), at(3))
	})
}
