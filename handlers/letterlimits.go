package handlers

import (
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/timer"
)

// DeadLetterLimits bound the dead letters that one process publishes, in any 24 hours about, so
// that the invalid commands of a tenant fill no broker. Above three quarters of a limit a dead
// letter is published without its body. Above the limit it is not published, and its command
// counts as handled.
type DeadLetterLimits struct {
	Bytes      int64 // of a tenant, of bodies and headers; default 64 MiB
	TotalBytes int64 // of all tenants; default 1 GiB
}

// These say how much of a dead letter is kept.
const (
	KeptWhole   = "whole"
	KeptHeaders = "headers" // its body was too much
	KeptNothing = "nothing"
)

const (
	letterPeriod = 24 * time.Hour
	letterTold   = time.Hour // how long a check names a tenant whose dead letter was not kept as a whole
	maxSpenders  = 10_000    // tenants that are remembered
)

// A letterLimiter counts the bytes of dead letters. The count decreases with time, from a
// limit to zero within letterPeriod.
type letterLimiter struct {
	limits DeadLetterLimits

	mu      sync.Mutex
	total   byteBudget
	tenants map[timer.TenantID]*byteBudget
}

// A byteBudget counts the dead letters of a tenant, or of all.
type byteBudget struct {
	bytes  float64 // as of at
	at     time.Time
	cutAt  time.Time // when a dead letter was last kept in part or not at all
	missed int64     // how many were not kept as a whole
}

// spent returns how many bytes count now.
func (s *byteBudget) spent(now time.Time, limit int64) float64 {
	s.bytes = max(0, s.bytes-float64(limit)*max(0, now.Sub(s.at).Seconds())/letterPeriod.Seconds())
	s.at = now
	return s.bytes
}

func (l *letterLimiter) of(tenant timer.TenantID) *byteBudget {
	s := l.tenants[tenant]
	if s == nil {
		s = new(byteBudget)
		for other := range l.tenants {
			if len(l.tenants) < maxSpenders {
				break
			}
			delete(l.tenants, other) // the limit of all tenants holds nonetheless
		}
		l.tenants[tenant] = s
	}
	return s
}

// ask returns how much of a dead letter may be published now.
func (l *letterLimiter) ask(now time.Time, tenant timer.TenantID, dead *message.Message) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	fits := func(bytes, parts int64) bool {
		return l.of(tenant).spent(now, l.limits.Bytes)+float64(bytes) <= float64(l.limits.Bytes/4*parts) &&
			l.total.spent(now, l.limits.TotalBytes)+float64(bytes) <= float64(l.limits.TotalBytes/4*parts)
	}
	switch headers := headerBytes(dead.Metadata); {
	case fits(headers+int64(len(dead.Payload)), 3):
		return KeptWhole
	case fits(headers, 4):
		return KeptHeaders
	}
	return KeptNothing
}

// done counts a dead letter, of which so much was kept.
func (l *letterLimiter) done(now time.Time, tenant timer.TenantID, dead *message.Message, kept string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of(tenant)
	if kept != KeptWhole {
		s.cutAt = now
		s.missed++
	}
	if kept != KeptNothing {
		bytes := float64(headerBytes(dead.Metadata) + int64(len(dead.Payload)))
		s.bytes, l.total.bytes = s.bytes+bytes, l.total.bytes+bytes
	}
}

// worst returns the tenant most of whose dead letters were not kept as a whole, if there were any
// lately.
func (l *letterLimiter) worst(now time.Time) (tenant timer.TenantID, missed int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t, s := range l.tenants {
		if s.missed > missed && now.Sub(s.cutAt) < letterTold {
			tenant, missed = t, s.missed
		}
	}
	return tenant, missed
}

func headerBytes(headers map[string]string) (n int64) {
	for name, value := range headers {
		n += int64(len(name) + len(value))
	}
	return n
}
