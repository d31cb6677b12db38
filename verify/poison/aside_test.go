package poison_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// The broker answers wherever a publisher wants it to, whatever else that one
// may publish to. The answer is no command and no event, and must not be taken
// for one; a consumer of events must expect it.
func TestAnswersOfTheBrokerHarmNobody(t *testing.T) {
	w := begin(t, commandsTopic)
	conn := w.wires("attacker", 1)[0]
	g := newGunner(1, "answers")
	mine := make(map[string]int)
	for _, reply := range []string{
		commandsTopic, "svc.acme.serviceCall", "svc.acme.dlq", "$JS.ACK.svc.timer-service_timer-commands.1.1.1.1.1",
		"$JS.API.STREAM.PURGE.svc", "$JS.API.STREAM.DELETE.svc", "$JS.API.STREAM.UPDATE.svc", "$JS.API.STREAM.MSG.DELETE.svc",
		"$JS.API.CONSUMER.DELETE.svc.timer-service_timer-commands", "$JS.API.CONSUMER.MSG.NEXT.svc.timer-service_timer-commands", "$SYS.REQ.SERVER.PING",
	} {
		s := junk(notJSON, "answer to "+reply)
		mine[string(s.body)] = 1
		s.reply, s.refusable = reply, true
		g.now = time.Now()
		good := g.command().good()
		for _, s := range []shot{s, good} { // that the good one is answered says that the other was stored
			if err := conn.fire(s); err != nil {
				t.Fatal(err)
			}
		}
		if err := conn.wait(10 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	w.settle(1, conn)
	w.stop()

	j := w.read()
	for _, v := range conn.fired {
		if err := j.check(v); err != nil {
			j.complain(v, err)
		}
	}
	deadLettered := make(map[string]int)
	for _, deadLetters := range j.deadLetters {
		for _, l := range deadLetters {
			deadLettered[l.get("deadLetterReason")]++
			if l.subject != "svc._.dlq" {
				t.Errorf("a dead letter on %s: %s", l.subject, l.body)
			}
		}
	}
	// The broker refuses to ack by an answer; its answer to a command is one that has no type.
	want := map[string]int{notJSON: len(mine) - 1, missingField: 1}
	if diff := cmp.Diff(want, deadLettered); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"svc.acme.serviceCall": 1, "svc.acme.dlq": 1}, j.answers); diff != "" {
		t.Errorf("answers of the broker (-want +got):\n%s", diff)
	}
}

// The id of a dead letter follows from its original, and where that will stand
// can be guessed. A stream takes an id only once.
func TestClaimedDeadLetterIsBuried(t *testing.T) {
	w := begin(t, commandsTopic)
	conn := w.wires("attacker", 1)[0]
	send := func(s shot) *volley {
		if err := conn.fire(s); err != nil {
			t.Fatal(err)
		}
		if err := conn.wait(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		return conn.fired[len(conn.fired)-1]
	}
	nothing := shot{body: []byte(`{"type":"nothing"}`), want: want{fate: ignored}}
	for i := range 5 {
		evil := junk(notJSON, fmt.Sprint("evil ", i))
		position := send(nothing).Seq + 2
		id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%q %q %s", commandsTopic, fmt.Sprint(position), evil.body))
		send(nothing.with(head("Nats-Msg-Id", id.String())))
		if v := send(evil); v.Seq != position {
			t.Fatalf("stands at %d, want %d: who else is there?", v.Seq, position)
		}
		w.settle(0, conn) // its dead letter is there
	}
	w.stop()
	j := w.read()
	for _, v := range conn.fired {
		if err := j.check(v); err != nil {
			j.complain(v, err)
		}
	}
	j.rest()
	if n := j.seen[withoutID]; n != 5 {
		t.Errorf("%d dead letters have no id on the broker, want 5: the claims missed", n)
	}
}
