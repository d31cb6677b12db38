package bench

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
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

// The ratios 1.1, 1.2 and 1.3: t with two degrees of freedom is 4.303 at 97.5 %.
func TestCompareInterval(t *testing.T) {
	t.Parallel()
	c := compare([]float64{10, 20, 30}, []float64{11, 24, 39}, true, 0.95)
	for name, got := range map[string][2]float64{"ratio": {c.Ratio, 1.1972}, "low": {c.Low, 0.9728}, "high": {c.High, 1.4734}} {
		if math.Abs(got[0]-got[1]) > 2e-3 {
			t.Errorf("%s is %v, want %v", name, got[0], got[1])
		}
	}
	if c.OldMid != 20 || c.NewMid != 24 {
		t.Errorf("medians %v and %v", c.OldMid, c.NewMid)
	}
}

// Of two that are the same, about one comparison in twenty finds a difference.
func TestCompareFindsNoNoise(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	found := 0
	const tries = 2000
	for range tries {
		var older, newer []float64
		for range 5 {
			minute := math.Exp(random.NormFloat64() / 3)
			older = append(older, minute*math.Exp(random.NormFloat64()/20))
			newer = append(newer, minute*math.Exp(random.NormFloat64()/20))
		}
		if compare(older, newer, true, 0.95).Verdict != NoDifference {
			found++
		}
	}
	if found < tries*3/100 || found > tries*7/100 {
		t.Errorf("%d of %d comparisons of the same found a difference, want about 5 %%", found, tries)
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
	all, err := CompareResults("A", "B", results[0], results[1], 0.95)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].Figure != "accepted/s" || all[0].OldMid != 4 || all[0].NewMid != 3 {
		t.Errorf("compared %+v", all)
	}
	if _, err := CompareResults("A", "B", results[0][:1], results[1][:1], 0.95); err == nil {
		t.Error("one round was compared")
	}
}
