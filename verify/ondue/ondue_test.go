package ondue

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
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
	waiting map[int]bool // those that the program has not said to have booked
	begun   int          // handlers
}

// longestPause is how long a handler may go on before it is killed: before it writes,
// after that, or after its end, when another one is at work.
const longestPause = 2 * longestWork

// live starts the program, asks it for events, and kills it soon after so many handlers
// have begun; if that is 0, it is asked for nothing new, and ends by itself. It reports
// whether the program was killed.
func (r *run) live(killAt int) (killed bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), programEnv+"="+r.path, modeEnv+"="+r.mode)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.ask(in, killAt > 0)
	begun := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if n, ok := number(lines.Text(), booked); ok {
			delete(r.waiting, n)
		}
		if _, ok := number(lines.Text(), entered); !ok {
			continue
		}
		r.begun++
		if begun++; begun == killAt {
			pause.For(ctx, rand.N(longestPause))
			_ = cmd.Process.Kill() // it may have ended
		}
	}
	err = cmd.Wait()
	killed = cmd.ProcessState.ExitCode() == -1
	if ctx.Err() != nil {
		r.t.Fatal("the program did not end in a minute")
	}
	if err != nil && !killed {
		r.t.Fatalf("the program ended by itself: %v", err)
	}
	return killed
}

// ask sends the numbers of events: those that may not have been booked, and new ones.
func (r *run) ask(in io.WriteCloser, more bool) {
	if more {
		for range r.inLife {
			r.last++
			r.waiting[r.last] = true
		}
	}
	for n := range r.waiting {
		if _, err := fmt.Fprintln(in, n); err != nil {
			return // it was killed
		}
	}
	_ = in.Close()
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
