package brokertest

import (
	"flag"
	"runtime"
	"strconv"
	"testing"
)

// atOnce is how many tests of a driver run at the same time, at least.
const atOnce = 8

// Main runs the tests of a driver as m.Run does, on a machine of few cores more
// of them at once: they wait for their server most of the time. It respects the
// flag -parallel.
func Main(m *testing.M) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given && runtime.GOMAXPROCS(0) < atOnce {
		if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
			panic("brokertest: " + err.Error()) // it is a flag of package testing
		}
	}
	return m.Run()
}
