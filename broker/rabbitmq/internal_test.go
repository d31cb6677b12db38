package rabbitmq

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"
)

func TestWhoWeAreToAServer(t *testing.T) {
	t.Parallel()
	certified := &tls.Config{Certificates: []tls.Certificate{{}}}
	for _, test := range []struct {
		name string
		opt  Options
		want string
	}{
		{"nobody", Options{URL: "amqp://h"}, "PLAIN \x00guest\x00guest"},
		{"the user of the URL", Options{URL: "amqp://u:p%2F@h", Username: "other", Password: "secret"}, "PLAIN \x00u\x00p/"},
		{"the user of the settings", Options{URL: "amqp://h", Username: "u", Password: "p"}, "PLAIN \x00u\x00p"},
		{"a certificate", Options{URL: "amqps://h", TLS: certified}, "EXTERNAL \x00*\x00*"},
		{"a certificate and a user", Options{URL: "amqps://h", TLS: certified, Username: "u", Password: "p"}, "PLAIN \x00u\x00p"},
		{"a certificate that is not shown", Options{URL: "amqp://h", TLS: certified}, "PLAIN \x00guest\x00guest"},
		{"a certificate of others", Options{URL: "amqps://h", TLS: &tls.Config{}}, "PLAIN \x00guest\x00guest"},
	} {
		all, err := servers(test.opt.URL)
		if err != nil {
			t.Fatal(err)
		}
		auth := test.opt.auth(all[0])[0]
		if got := auth.Mechanism() + " " + auth.Response(); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	got, err := servers("amqp://h, amqps://u:p@h:1/a%2Fb,amqp://[::1]/%2F,amqps://h/v")
	if err != nil {
		t.Fatal(err)
	}
	want := []server{
		{host: "h", address: "h:5672", vhost: "/"},
		{tls: true, host: "h", address: "h:1", vhost: "a/b", user: "u", password: "p", named: true},
		{host: "::1", address: "[::1]:5672", vhost: "/"},
		{tls: true, host: "h", address: "h:5671", vhost: "v"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(server{})); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}

// An ack of many must name a message that was not acked before, and none that is
// not handled may be below it.
func TestAcksOfManyMeanOnlyWhatIsHandled(t *testing.T) {
	t.Parallel()
	type sent struct {
		Back   []uint64
		UpTo   uint64
		Single []uint64
	}
	a := &acks{wake: make(chan struct{}, 1), settled: make(map[uint64]struct{}), holds: true}
	for i, step := range []struct {
		ack, back []uint64
		canceled  bool
		want      sent
	}{
		{ack: []uint64{2}, want: sent{Single: []uint64{2}}},
		{ack: []uint64{1}, want: sent{UpTo: 1}}, // 2 is acked already
		{ack: []uint64{5, 3, 4, 8}, want: sent{UpTo: 5, Single: []uint64{8}}},
		{ack: []uint64{10}, back: []uint64{6}, want: sent{Single: []uint64{10}}}, // 6 waits
		{ack: []uint64{7}, want: sent{Single: []uint64{7}}},
		{canceled: true, want: sent{Back: []uint64{6}}},
		{ack: []uint64{11, 9}, back: []uint64{12}, want: sent{Back: []uint64{12}, UpTo: 11}},
		{},
	} {
		for _, tag := range step.ack {
			a.ack(tag)
		}
		for _, tag := range step.back {
			a.giveBack(tag)
		}
		if step.canceled {
			a.canceled()
		}
		back, upTo, single, _ := a.next()
		if diff := cmp.Diff(step.want, sent{back, upTo, single}, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
}

// frame is one of AMQP.
func frame(kind byte, payload []byte) []byte {
	b := append([]byte{kind, 0, 1}, binary.BigEndian.AppendUint32(nil, uint32(len(payload)))...)
	return append(append(b, payload...), 0xce)
}

// FuzzSieve: whatever a server sends, the sieve neither panics nor holds back the
// frames behind it, and passes on the same bytes unless it changes a header.
func FuzzSieve(f *testing.F) {
	head := append(make([]byte, 12), 0x20, 0)
	f.Add(frame(frameHeader, append(slices.Clone(head), 0, 0, 0, 5, 1, 'a', 't', 1, 9)))
	f.Add(frame(frameHeader, append(slices.Clone(head), 0xff, 0xff, 0xff, 0xff)))
	f.Add(frame(frameHeader, head))
	f.Add(frame(frameBody, []byte("body")))
	f.Add([]byte("AMQP\x00\x00\x09\x01"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		v := newValve()
		v.open() // nobody takes what it holds back
		out, err := io.ReadAll(newSieve(bytes.NewReader(in), v))
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		if len(out) > len(in) {
			t.Errorf("%d bytes became %d", len(in), len(out))
		}
		if len(in) > 0 && in[0] == frameBody && !bytes.Equal(out, in) && len(in) >= frameHead && int(binary.BigEndian.Uint32(in[3:])) == len(in)-8 {
			t.Error("a body was changed")
		}
	})
}

func TestSieveKeepsWhatTheLibraryReads(t *testing.T) {
	t.Parallel()
	good := frame(frameHeader, append(append(make([]byte, 12), 0x20, 0), 0, 0, 0, 4, 1, 'a', 't', 1))
	bad := frame(frameHeader, append(append(make([]byte, 12), 0x24, 0), 0, 0, 0, 3, 1, 'a', '?', 'x'))
	kept := frame(frameHeader, append(append(make([]byte, 12), 0x04, 0), 'x'))
	out, err := io.ReadAll(newSieve(bytes.NewReader(slices.Concat(good, bad, good)), nil))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Concat(good, kept, good), out); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

func TestNameOfARolesQueueIsItsOwn(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, role := range []string{"a", "a.b", "a_b", "a b", "A", "", strings.Repeat("r", 1000), strings.Repeat("r", 1001), "\xff"} {
		name := ownName("svc.acme.q", role)
		if other, ok := seen[name]; ok {
			t.Errorf("roles %.20q and %.20q share the queue %s", role, other, name)
		}
		seen[name] = role
		if len(name) > 255 || checkName(name[:min(len(name), maxName)]) != nil {
			t.Errorf("role %.20q has the queue %q", role, name)
		}
	}
}

func TestQuorumQueuesDeliverForEver(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"3.10.8": true, "3.13.7": true, "4.0.0": false, "4.1.2": false, "": false} {
		if got := hasNoLimit(version); got != want {
			t.Errorf("%s: no limit %v, want %v", version, got, want)
		}
	}
}

// TestWhoComesTooLateIsToldSoAtOnce asks and publishes after the end.
func TestWhoComesTooLateIsToldSoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{}, nil)
		b.out.set(&connection{Connection: new(amqp.Connection), gone: make(chan struct{})}, nil)
		b.end()
		ctx, cancel := context.WithTimeout(t.Context(), apiTimeout)
		defer cancel()
		for i := range 2 {
			if err := b.askOn(ctx, nil, nil); !errors.Is(err, ErrClosed) {
				t.Errorf("question %d: %v, want ErrClosed", i, err)
			}
			if _, err := b.openOutlet(ctx); !errors.Is(err, ErrClosed) {
				t.Errorf("outlet %d: %v, want ErrClosed", i, err)
			}
		}
	})
}

func TestEachTopicWhoseQueueIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	b := New(Options{}, nil)
	c := newCall(3)
	for _, topic := range []string{"a", "b", "c"} {
		b.known.add(topic)
	}
	c.answer(1, &returnedError{topic: "a"})
	c.answer(1, errNack)
	c.answer(1, &returnedError{topic: "b"})
	publisher{b}.mend(c.failed.errs, &outlet{channel: new(amqp.Channel)})
	for topic, want := range map[string]bool{"a": false, "b": false, "c": true} {
		if got := b.known.has(topic); got != want {
			t.Errorf("topic %s is known: %v, want %v", topic, got, want)
		}
	}
}

// TestAMessageIsReturnedBeforeItIsConfirmed lets what the server says pile up:
// the library drops what waits for us for too long.
func TestAMessageIsReturnedBeforeItIsConfirmed(t *testing.T) {
	t.Parallel()
	for range 20 {
		returns, confirms, closed := make(chan amqp.Return, 1), make(chan amqp.Confirmation, 1), make(chan *amqp.Error)
		o := &outlet{room: make(chan struct{}, 1), over: make(chan struct{}), onWay: make(map[uint64]onWay)}
		o.conn, o.returns, o.confirms, o.closed = &connection{Connection: new(amqp.Connection)}, returns, confirms, closed
		c := newCall(1)
		o.room <- struct{}{}
		o.expect(c, sending{topic: "a", Publishing: amqp.Publishing{MessageId: "1"}})
		returns <- amqp.Return{RoutingKey: "a", MessageId: "1"}
		confirms <- amqp.Confirmation{DeliveryTag: 1, Ack: true}
		close(returns)
		close(confirms)
		close(closed)
		o.listen()
		<-c.done
		if _, ok := errors.AsType[*returnedError](c.failure()); !ok {
			t.Fatalf("got %v, want an error that says that it was returned", c.failure())
		}
	}
}
