package main

import (
	"fmt"
	"testing"
)

// A pipe goes on for ever, and its ids are forgotten some day.
func TestIDsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 100
	s := newIDs(most)
	body := []byte("first")
	for i := range 3 * most {
		if id := fmt.Sprint(i); s.of(id, body) != id {
			t.Fatalf("%s is taken", id)
		}
	}
	if n := len(s.now) + len(s.before); n > 2*most {
		t.Errorf("%d ids are kept", n)
	}
	last := fmt.Sprint(2 * most) // as many ids ago as are kept
	if id := s.of(last, []byte("second")); id == last {
		t.Errorf("%s is used for another body", id)
	}
}
