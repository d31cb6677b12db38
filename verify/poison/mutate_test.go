package poison_test

import (
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// far is how long after now a mutation may be due and still be seen firing.
const far = 5 * time.Second

// mutation changes a valid command at random. Only here the service's own
// decoder says what must become of it: package envelope holds that against a
// second opinion.
func mutation(g *gunner) shot {
	for {
		body := []byte(g.command().String())
		for range 1 + g.IntN(3) {
			body = g.mutate(body)
		}
		if s, ok := g.judge(body); ok {
			return s
		}
	}
}

// mutate changes a body in one place.
func (g *gunner) mutate(body []byte) []byte {
	if len(body) == 0 {
		return body
	}
	at, n := g.IntN(len(body)), 1+g.IntN(12)
	end := min(at+n, len(body))
	switch g.IntN(8) {
	case 0: // flip a bit
		body = slices.Clone(body)
		body[at] ^= 1 << g.IntN(8)
		return body
	case 1: // drop some bytes
		return slices.Concat(body[:at], body[end:])
	case 2: // repeat some
		return slices.Concat(body[:end], body[at:])
	case 3: // insert what means something
		return slices.Concat(body[:at], []byte(g.token()), body[at:])
	case 4: // put it in the place of something
		return slices.Concat(body[:at], []byte(g.token()), body[end:])
	case 5: // splice with another command
		other := []byte(g.command().String())
		return slices.Concat(body[:at], other[g.IntN(len(other)):])
	case 6: // change a byte
		body = slices.Clone(body)
		body[at] = byte(g.Uint32())
		return body
	}
	other := []byte(g.command().String()) // a piece of another command
	from := g.IntN(len(other))
	return slices.Concat(body[:at], other[from:min(from+n, len(other))], body[end:])
}

func (g *gunner) token() string {
	return g.pick(`"`, `\`, `{`, `}`, `[`, `]`, `,`, `:`, `null`, `true`, `-`, `.`, `0`, `e9`, `\u0000`, `\ud800`, "\x00", "\xff", "\n", "\u202e",
		`"tenantId":"acme",`, `"id":"x",`, `{"a":1}`, "Z", "+", "9999", `"tenantId":"_"`, " ", "\ufeff")
}

// judge uses the decoder. It returns false if what becomes of the message can't
// be known, such as when it is about a timer of another message.
func (g *gunner) judge(body []byte) (s shot, ok bool) {
	s = shot{body: body}
	m, err := envelope.Decode(body)
	if err != nil {
		s.want = want{tenant: string(envelope.TenantOf(body)), reason: string(reasonOf(err))}
		return s, true
	}
	c, ours := m.Payload.(timer.ScheduleTimer)
	switch {
	case m.Payload == nil:
		s.want.fate = ignored
		return s, true
	case !ours || g.keys[c.Key.String()]:
		return s, false
	}
	if err := timer.ValidateTimestamp(c.TimestampMS, g.now, 24*time.Hour); err != nil {
		s.want = want{tenant: string(c.TenantID), reason: badTime}
		return s, true
	}
	g.keys[c.Key.String()] = true
	ahead := c.DueAt.Sub(g.now)
	const horizon = 3650 * 24 * time.Hour
	switch {
	case ahead > horizon+time.Hour:
		s.want = want{tenant: string(c.TenantID), reason: beyondHorizon}
	case ahead > time.Hour && ahead < horizon-time.Hour:
		s.want.fate = accepted
	case ahead < far:
		s.want = want{fate: fires, tenant: string(c.TenantID), call: string(c.ServiceCallID), dueAt: c.DueAt, correlation: c.CorrelationID}
	default:
		return s, false
	}
	return s, true
}
