package bench

import (
	"context"
	"io"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		older, newer []float64
		rising       bool
		want         Verdict
	}{
		{"a rate a tenth higher, in minutes that differ by a half", []float64{100, 150, 120, 90}, []float64{111, 164, 132, 99}, true, Faster},
		{"the same of a cost", []float64{100, 150, 120, 90}, []float64{111, 164, 132, 99}, false, Slower},
		{"a cost a tenth lower", []float64{100, 150, 120, 90}, []float64{90, 136, 107, 81}, false, Faster},
		{"noise", []float64{100, 110, 90, 105}, []float64{108, 95, 101, 99}, true, NoDifference},
		{"one pair of three that differs", []float64{100, 100, 100}, []float64{100, 101, 150}, true, NoDifference},
		{"the same", []float64{100, 100}, []float64{100, 100}, true, NoDifference},
	}
	for _, test := range tests {
		if c := compare(test.older, test.newer, test.rising, 0.95); c.Verdict != test.want {
			t.Errorf("%s: %+v, want %s", test.name, c, test.want)
		}
	}
}

func TestCompareTakesTurns(t *testing.T) {
	t.Parallel()
	var order strings.Builder
	contender := func(name string) Contender {
		return Contender{name, func(context.Context) (Result, error) {
			order.WriteString(name)
			return Result{Accepted: float64(order.Len())}, nil
		}}
	}
	results, err := Compare(t.Context(), 3, io.Discard, contender("A"), contender("B"))
	if err != nil {
		t.Fatal(err)
	}
	if order.String() != "ABBAAB" {
		t.Errorf("measured %s, want ABBAAB", order.String())
	}
	all, err := CompareResults(results[0], results[1], 0.95)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].Figure != "accepted/s" || all[0].Old != 4 || all[0].New != 3 {
		t.Errorf("compared %+v", all)
	}
	if _, err := CompareResults(results[0][:1], results[1][:1], 0.95); err == nil {
		t.Error("one round was compared")
	}
}
