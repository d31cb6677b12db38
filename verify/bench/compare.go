package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// A Contender is one of the programs that are compared.
type Contender struct {
	Name    string
	Measure func(context.Context) (Result, error)
}

// Compare measures contenders in turns: each round has all of them, and every
// second round has them in reverse, so that a machine that grows slower or faster
// favors none. It returns the results by contender, in the order of the rounds.
func Compare(ctx context.Context, rounds int, progress io.Writer, contenders ...Contender) ([][]Result, error) {
	results := make([][]Result, len(contenders))
	for round := range rounds {
		for i := range contenders {
			if round%2 == 1 {
				i = len(contenders) - 1 - i
			}
			fmt.Fprintf(progress, "round %d of %d: %s\n", round+1, rounds, contenders[i].Name)
			r, err := contenders[i].Measure(ctx)
			if err != nil {
				return results, fmt.Errorf("%s: %w", contenders[i].Name, err)
			}
			results[i] = append(results[i], r)
		}
	}
	return results, nil
}

// A Verdict says which of two is better.
type Verdict string

// Verdicts on the new one.
const (
	Faster       Verdict = "faster"
	Slower       Verdict = "slower"
	NoDifference Verdict = "no difference"
)

// A Comparison is one figure of two contenders.
type Comparison struct {
	Figure    string
	Old, New  float64 // medians
	Ratio     float64 // new by old, the geometric mean over the rounds
	Low, High float64 // of its confidence interval
	Verdict   Verdict
}

// figures are compared. A result that does not measure one has zero.
var figures = []struct {
	name   string
	rising bool // more is better
	value  func(Result) float64
}{
	{"accepted/s", true, func(r Result) float64 { return r.Accepted }},
	{"delivered/s", true, func(r Result) float64 { return r.Delivered }},
	{"CPU until accepted, µs", false, func(r Result) float64 { return r.IntakeCPU.sum() }},
	{"CPU until delivered, µs", false, func(r Result) float64 { return r.FiringCPU.sum() }},
	{"CPU in all, µs", false, func(r Result) float64 { return r.CPU.sum() }},
	{"service's CPU in all, µs", false, func(r Result) float64 { return r.serviceCPU() }},
	{"lateness p50, ms", false, func(r Result) float64 { return r.late().P50 }},
	{"lateness p99, ms", false, func(r Result) float64 { return r.late().P99 }},
}

// CompareResults compares each figure that both have, round by round.
// A verdict is wrong with a probability of one less the confidence.
func CompareResults(older, newer []Result, confidence float64) (all []Comparison, err error) {
	if len(older) != len(newer) || len(older) < 2 {
		return nil, errors.New("a comparison needs two rounds or more of both")
	}
	for _, f := range figures {
		a, b := values(older, f.value), values(newer, f.value)
		if slices.Min(a) <= 0 || slices.Min(b) <= 0 {
			continue
		}
		c := compare(a, b, f.rising, confidence)
		c.Figure = f.name
		all = append(all, c)
	}
	return all, nil
}

func values(results []Result, value func(Result) float64) (all []float64) {
	for _, r := range results {
		all = append(all, value(r))
	}
	return all
}

// compare compares pairs of measurements, which are above zero. The interval is
// that of Student's t on the logarithms of the ratios: what slows the machine
// multiplies, and is much the same for the two of a pair.
func compare(older, newer []float64, rising bool, confidence float64) Comparison {
	logs := make([]float64, len(older))
	for i := range older {
		logs[i] = math.Log(newer[i] / older[i])
	}
	mean, deviation := stat.MeanStdDev(logs, nil)
	n := float64(len(logs))
	margin := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile((1+confidence)/2) * deviation / math.Sqrt(n)
	c := Comparison{
		Old: median(older), New: median(newer),
		Ratio: math.Exp(mean), Low: math.Exp(mean - margin), High: math.Exp(mean + margin), Verdict: NoDifference,
	}
	switch {
	case c.Low > 1 && rising, c.High < 1 && !rising:
		c.Verdict = Faster
	case c.Low > 1, c.High < 1:
		c.Verdict = Slower
	}
	return c
}

// WriteComparisons writes them for people.
func WriteComparisons(out io.Writer, all []Comparison) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\told\tnew\tnew/old\tinterval\t")
	for _, c := range all {
		fmt.Fprintf(t, "%s\t%.4g\t%.4g\t%.3f\t%.3f to %.3f\t%s\n", c.Figure, c.Old, c.New, c.Ratio, c.Low, c.High, c.Verdict)
	}
	_ = t.Flush() // output: an error means that the reader has gone
}
