// Package poison_test attacks the service, as a black box, with what any client may
// send who may publish commands: thousands of broken, misleading and oversized
// messages among good ones, through a real broker.
//
//	attackers ──hostile──► broker ◄──commands──┐
//	producer  ──good─────►   │  ◄──events, dead letters── service
//	                         └──► judge: all that the broker has in the end
//
// What must become of a message is known from how it was made, and never asked
// of the service's own decoder.
package poison_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

var (
	seedFlag  = flag.Uint64("poison.seed", 0, "seed of the campaign; 0 takes a random one")
	onlyFlag  = flag.String("poison.only", "", "send only hostile messages of kinds that this regular expression matches")
	countFlag = flag.Int("poison.n", 0, "hostile messages, and as many good ones; 0 means 10,000, or 1,000 with -short")
)

// campaign returns the seed and the size of a campaign, and says how to repeat it.
func campaign(t *testing.T) (seed uint64, n int) {
	seed, n = *seedFlag, *countFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	if n == 0 && testing.Short() {
		n = 1_000
		t.Log("-short: a tenth of the campaign")
	} else if n == 0 {
		n = 10_000
	}
	t.Logf("repeat this with: go test -v ./verify/poison -poison.seed %d -poison.n %d", seed, n)
	return seed, n
}

// maxLate is how late a good message may fire while bad ones are about, on a
// machine where no write to the disk takes longer than quick. What one takes
// longer on a machine that is busy is added waits times: a message waits for
// others at each of its steps, and they are as slow.
const (
	maxLate = time.Second
	quick   = 50 * time.Millisecond
	waits   = 20
)

// maxLines is how much the service may have to say of its own troubles.
const maxLines = 100

// maxRefusals is how many lines a minute tell of refused messages: the first of 50
// tenants and reasons, how many of each, and how many of others.
const maxRefusals = 101

func TestPoisonHarmsNobody(t *testing.T) {
	w := begin(t, commandsTopic)
	disk, began := w.watchDisk(), time.Now()
	shots := w.attack(headers, w.dial)
	w.settle(shots)
	slow := disk()
	w.stop()
	v := w.judge(shots, w.readStream(shots))
	w.checkLog(began)
	limit := maxLate + waits*max(0, slow-quick)
	if v.Overall.MaxMS > float64(limit.Milliseconds()) {
		t.Errorf("a good message was %v ms late, more than %v; the slowest write of the disk took %v", v.Overall.MaxMS, limit, slow)
	}
}

// checkLog fails the test if hostile messages have filled the log of the service. It returns what the service
// says of other things.
func (w *world) checkLog(began time.Time) (others string) {
	w.Helper()
	var lines []string
	refusals := 0
	for _, l := range w.service.Lines() {
		if strings.Contains(l.Text, `msg="messages refused`) {
			refusals++
		} else {
			lines = append(lines, l.Text)
		}
	}
	if len(lines) > maxLines {
		w.Errorf("%d lines in the log of the service: hostile messages must not fill it", len(lines))
	}
	if most := maxRefusals * (2 + int(time.Since(began)/time.Minute)); refusals > most {
		w.Errorf("%d lines about refused messages, want at most %d", refusals, most)
	}
	return strings.Join(lines, "\n")
}

// attack sends good messages steadily, and bad ones in bursts, as fast as the broker takes them, by
// senders that dial returns. It returns all of them.
func (w *world) attack(headers []kind, dial func(user, name string) sender) (shots []*shot) {
	w.Helper()
	seed, n := campaign(w.T)
	const attackers, burst = 2, 25
	const pause = 75 * time.Millisecond // between two bursts of all
	only := regexp.MustCompile(*onlyFlag)
	var mu sync.Mutex
	var sending sync.WaitGroup
	send := func(user, name string, n, burst int, next func(*gunner, int) shot) {
		out := dial(user, name)
		sending.Go(func() {
			g := newGunner(seed, name, headers)
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for i := range n {
				var err error
				if i%burst == 0 {
					err = out.sync()
					<-tick.C
				}
				g.now = time.Now()
				s := next(g, i)
				if s.Note != "good" && !only.MatchString(s.Note) {
					continue
				}
				s.SentAt, s.subject = g.now, commandsTopic
				if err = errors.Join(err, out.fire(&s)); err != nil {
					w.Errorf("%s: %v", name, err)
					return
				}
				mu.Lock()
				shots = append(shots, &s)
				mu.Unlock()
			}
			if err := out.sync(); err != nil {
				w.Errorf("%s: %v", name, err)
			}
		})
	}
	for i := range attackers {
		send("attacker", fmt.Sprint("evil", i), n/attackers, burst, (*gunner).hostile)
	}
	send("producer", "good", n, burst*attackers, func(g *gunner, _ int) shot {
		s := g.command().good()
		s.Note = "good"
		return s
	})
	sending.Wait()
	return shots
}

// settle waits until the service has acked all commands and published the events of the ones that
// the broker must take, and until the due times of the others are over.
func (w *world) settle(shots []*shot) {
	w.Helper()
	events, last := 0, time.Time{}
	for _, s := range shots {
		if s.Kind == history.Schedule && !s.refusable {
			events++
		}
		if s.DueAt.After(last) {
			last = s.DueAt
		}
	}
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	s, err := w.js.Stream(ctx, stream)
	harness.Must(w, err)
	if err := pause.Until(ctx, func() (bool, error) {
		info, err := s.Info(ctx, jetstream.WithSubjectFilter("svc.*.serviceCall"))
		if err != nil || w.service.HasEnded() {
			return true, err
		}
		fired := 0
		for _, n := range info.State.Subjects {
			fired += int(n)
		}
		waiting, err := crash.Waiting(ctx, s, w.subject)
		return waiting == 0 && fired >= events && time.Since(last) > 2*maxLate, err
	}); err != nil {
		w.Errorf("the service has not fired and acked everything: %v", err)
	}
}
