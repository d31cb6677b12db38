package bench

import (
	"fmt"
	"math"
)

// MarkdownRow returns a row of the table of the documentation: the medians of
// runs, each of which has the figures of a drain, of a steady load or of both.
func MarkdownRow(title string, runs []Result) string {
	r := median(runs)
	alone, cpu, memory, drain := "", "", "", " | | " // of the last, three columns
	if r.IntakeCPU != nil {
		drain = fmt.Sprintf("%s | %s | %.0f + %.0f", thousands(r.Accepted), thousands(r.Delivered), r.IntakeCPU.sum(), r.FiringCPU.sum())
	}
	if r.Lateness != nil {
		alone = fmt.Sprintf("%.1f / %.1f", r.Lateness.P50, r.Lateness.P99)
	}
	if r.CPU != nil {
		cpu = fmt.Sprintf("%.2f", r.CPU.sum()/1000)
	}
	if r.PeakMiB > 0 {
		memory = fmt.Sprintf("%.0f", r.PeakMiB)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |", title, drain, alone, cpu, memory)
}

// thousands writes a rate to the hundred.
func thousands(rate float64) string {
	n := int(math.Round(rate/100) * 100)
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
