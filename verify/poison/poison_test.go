// Package poison_test attacks the service, as a black box, with what any client may
// send who may publish commands: thousands of broken, misleading and oversized
// messages among good ones, through a real broker.
//
//	attackers ──hostile──► nats-server ◄──commands──┐
//	producer  ──good─────►     │  ◄──events, dead letters── service
//	                           └──► judge: all that the stream holds
//
// What must become of a message is known from how it was made, and never asked
// of the service's own decoder.
package poison_test

import (
	"context"
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
	seed, n := campaign(t)
	w := begin(t, commandsTopic)
	attackers, producers := w.wires("attacker", 2), w.wires("producer", 1)
	disk := w.watchDisk()
	began := time.Now()
	attack(t, seed, n, attackers, producers[0])
	t.Logf("sent in %v", time.Since(began).Round(time.Millisecond))
	all := append(attackers, producers...)
	for _, wire := range all {
		if err := wire.wait(30 * time.Second); err != nil {
			t.Error(err)
		}
	}
	w.settle(all...)
	slow := disk()
	t.Logf("all done after %v", time.Since(began).Round(time.Millisecond))
	w.stop()
	j := w.read()
	kinds := make(map[string]int)
	for _, wire := range all {
		for _, v := range wire.fired {
			kinds[v.kind]++
			if err := j.check(v); err != nil {
				j.complain(v, err)
			}
		}
		if len(wire.said) > 0 {
			t.Logf("the broker complained %d times, first: %s", len(wire.said), wire.said[0])
		}
	}
	j.rest()
	j.report(kinds)
	refusals, lines := 0, w.service.Lines()
	for _, l := range lines {
		if strings.Contains(l.Text, `msg="messages refused`) {
			refusals++
		}
	}
	t.Logf("latest good message: %v, the slowest write of the disk %v (%s); log of the service: %d lines", j.latest, slow, j.why, len(lines))
	if n := len(lines) - refusals; n > maxLines {
		t.Errorf("%d lines in the log of the service: hostile messages must not fill it", n)
	}
	if most := maxRefusals * (2 + int(time.Since(began)/time.Minute)); refusals > most {
		t.Errorf("%d lines about refused messages, want at most %d", refusals, most)
	}
	if limit := maxLate + waits*max(0, slow-quick); j.latest > limit {
		t.Errorf("a good message was %v late, more than %v: %s", j.latest, limit, j.why)
	}
}

// complain reports the first messages of each kind with another result.
func (j *judge) complain(v *volley, err error) {
	j.wrong[v.kind]++
	if j.wrong[v.kind] <= 2 {
		j.Errorf("%s: %v\nheader %.200q\nbody %.300q", v.kind, err, v.header, v.body)
	} else {
		j.Fail()
	}
}

// wires connects as a user a number of times.
func (w *world) wires(user string, n int) (all []*wire) {
	for i := range n {
		wire, err := dial(w.address, user, fmt.Sprint(user, i))
		harness.Must(w, err)
		w.Cleanup(func() { _ = wire.conn.Close() })
		all = append(all, wire)
	}
	return all
}

// attack sends good messages steadily, and bad ones in bursts, as fast as the
// broker takes them.
func attack(t *testing.T, seed uint64, n int, attackers []*wire, producer *wire) {
	t.Helper()
	const burst = 25
	const pause = 75 * time.Millisecond // between two bursts of all
	only := regexp.MustCompile(*onlyFlag)
	var sending sync.WaitGroup
	send := func(wire *wire, name string, n, burst int, next func(*gunner, int) shot) {
		sending.Go(func() {
			g := newGunner(seed, name)
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for i := range n {
				if i%burst == 0 {
					if err := wire.out.Flush(); err != nil {
						t.Error(err)
						return
					}
					<-tick.C
				}
				g.now = time.Now()
				s := next(g, i)
				if s.kind != "good" && !only.MatchString(s.kind) {
					continue
				}
				if err := wire.fire(s); err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
			}
		})
	}
	for i, wire := range attackers {
		send(wire, fmt.Sprintf("evil%d", i), n/len(attackers), burst, (*gunner).hostile)
	}
	send(producer, "good", n, burst*len(attackers), func(g *gunner, _ int) shot {
		s := g.command().good()
		s.kind = "good"
		return s
	})
	sending.Wait()
}

// hostile makes up one hostile message: of all kinds in turn.
func (g *gunner) hostile(made int) shot {
	if len(g.next) > 0 {
		s := g.next[0]
		g.next = g.next[1:]
		return s
	}
	lists := [][]kind{bodies, owners, g.headers, others}
	kinds := lists[made%len(lists)]
	k := kinds[made/len(lists)%len(kinds)]
	if made%1_000 == 0 {
		k = huge
	}
	s := k.make(g)
	s.kind = k.name
	return s
}

// settle waits until the service has nothing to do any more.
func (w *world) settle(all ...*wire) {
	events := 0
	for _, wire := range all {
		for _, v := range wire.fired {
			if v.want.fate == fires && v.Seq > 0 {
				events++
			}
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
		return waiting == 0 && fired >= events, err
	}); err != nil {
		w.Errorf("the service has not fired and acked everything: %v", err)
	}
}
