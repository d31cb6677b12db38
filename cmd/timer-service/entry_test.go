package main

import "testing"

func TestLatenessIsReadable(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int64]string{-3: "-3 ms", 0: "0 ms", 9_999: "9999 ms", 10_000: "10s", 28_101_156_558: "7805h52m37s"} {
		if got := lateness(ms); got != want {
			t.Errorf("lateness(%d) = %s, want %s", ms, got, want)
		}
	}
}
