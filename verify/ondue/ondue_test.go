package ondue

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
)

var kills = flag.Int("kills", 25, "how often each program is killed, the one that handles with each of OnDue and OnDueTx")

// TestMain makes the test binary the program, too.
func TestMain(m *testing.M) {
	path := os.Getenv(programEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	if err := program(path, os.Getenv(modeEnv), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestEventsOfAKilledProgramAreHandled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for some seconds: not with -short")
	}
	t.Parallel()
	// How many events a life is asked for: about what it handles before it is killed.
	for mode, inLife := range map[string]int{"OnDue": 20, "OnDueTx": 6} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := &run{t: t, path: filepath.Join(t.TempDir(), "program.db"), mode: mode, inLife: inLife, waiting: make(map[int]bool)}
			began := time.Now()
			for killed := 0; killed < *kills; {
				if r.live(1 + rand.IntN(5)) {
					killed++
				}
			}
			r.live(0)
			handled := r.handled()
			lost, twice := 0, 0
			for n := 1; n <= r.last; n++ {
				switch {
				case handled[n] == 0:
					lost++
				case handled[n] > 1:
					twice++
				}
			}
			t.Logf("%s: %d kills in %v, each in a handler: %d events, handlers begun %d times, %d events not handled, %d handled more than once",
				mode, *kills, time.Since(began).Round(time.Second), r.last, r.begun, lost, twice)
			if lost > 0 || len(handled) != r.last {
				t.Errorf("%d events were handled, %d of %d were not", len(handled), lost, r.last)
			}
			if mode == "OnDueTx" && twice > 0 {
				t.Errorf("%d events took effect more than once", twice)
			}
			if r.begun < r.last+*kills/10 {
				t.Errorf("%d handlers for %d events: the kills did not hit them", r.begun, r.last)
			}
		})
	}
}

// A run is the lives of a program, one after the other.
type run struct {
	t          *testing.T
	path, mode string
	inLife     int // events that a life is asked for

	last    int          // number of the last event that was asked for
	waiting map[int]bool // events that the program has not said to have booked
	begun   int          // handlers
}

// longestPause is how long a handler may go on before it is killed: before it writes,
// after that, or after its end, when another one is at work.
const longestPause = 2 * longestWork

// live has the program live once, asks it for events, and kills it soon after so many
// handlers have begun; if that is 0, it is asked for nothing new, and ends by itself. It
// reports whether the program was killed.
func (r *run) live(killAt int) (killed bool) {
	r.t.Helper()
	if killAt > 0 {
		for range r.inLife {
			r.last++
			r.waiting[r.last] = true
		}
	}
	begun := 0
	return live(r.t, r.path, r.mode, r.waiting, func(line string, kill func(after time.Duration)) {
		if _, ok := number(line, entered); !ok {
			return
		}
		r.begun++
		if begun++; begun == killAt {
			kill(rand.N(longestPause))
		}
	})
}

// live runs a program on its database until it ends, and asks it for the numbers that
// wait. A number that the program says to have booked waits no more. It passes on each
// line of the program, with a function that kills the program after a while. It reports whether the
// program was killed; it must not end by itself in another way than cleanly.
func live(t *testing.T, path, mode string, waiting map[int]bool, said func(line string, kill func(after time.Duration))) (killed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var numbers strings.Builder
	for n := range waiting {
		fmt.Fprintln(&numbers, n)
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), programEnv+"="+path, modeEnv+"="+mode)
	cmd.Stderr, cmd.Stdin = os.Stderr, strings.NewReader(numbers.String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func(after time.Duration) {
		go func() { // which ends before the process is waited for, or finds that it was
			pause.For(ctx, after)
			_ = cmd.Process.Kill()
		}()
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if n, ok := number(lines.Text(), booked); ok {
			delete(waiting, n)
		}
		said(lines.Text(), kill)
	}
	err = cmd.Wait()
	killed = cmd.ProcessState.ExitCode() == -1
	if ctx.Err() != nil {
		t.Fatal("the program did not end in a minute")
	}
	if err != nil && !killed {
		t.Fatalf("the program ended by itself: %v", err)
	}
	return killed
}

// handled returns how often each event was handled.
func (r *run) handled() map[int]int {
	r.t.Helper()
	db, err := open(r.t.Context(), r.path, handledTable)
	if err != nil {
		r.t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(r.t.Context(), `SELECT CAST(call AS INTEGER), count(*) FROM handled GROUP BY 1`)
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	times := make(map[int]int)
	for rows.Next() {
		var n, count int
		if err := rows.Scan(&n, &count); err != nil {
			r.t.Fatal(err)
		}
		times[n] = count
	}
	if err := rows.Err(); err != nil {
		r.t.Fatal(err)
	}
	return times
}
