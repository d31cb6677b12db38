package rabbitmq

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
)

func TestWhoWeAreToAServer(t *testing.T) {
	t.Parallel()
	certified := func() (*tls.Config, error) { return &tls.Config{Certificates: []tls.Certificate{{}}}, nil }
	others := func() (*tls.Config, error) { return new(tls.Config), nil }
	for _, test := range []struct {
		name string
		opt  Options
		want string
	}{
		{"no user", Options{URL: "amqp://h"}, "PLAIN \x00guest\x00guest"},
		{"the user of the URL", Options{URL: "amqp://u:p%2F@h", Username: "other", Password: "secret"}, "PLAIN \x00u\x00p/"},
		{"the user of the settings", Options{URL: "amqp://h", Username: "u", Password: "p"}, "PLAIN \x00u\x00p"},
		{"a certificate", Options{URL: "amqps://h", TLS: certified}, "EXTERNAL \x00*\x00*"},
		{"a certificate and a user", Options{URL: "amqps://h", TLS: certified, Username: "u", Password: "p"}, "PLAIN \x00u\x00p"},
		{"a certificate that is not shown", Options{URL: "amqp://h", TLS: certified}, "PLAIN \x00guest\x00guest"},
		{"a certificate of others", Options{URL: "amqps://h", TLS: others}, "PLAIN \x00guest\x00guest"},
	} {
		all, err := servers(test.opt.URL)
		if err != nil {
			t.Fatal(err)
		}
		secure, err := test.opt.tls(all[0])
		if err != nil {
			t.Fatal(err)
		}
		auth := test.opt.auth(all[0], secure)[0]
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
		{address: "h:5672", vhost: "/"},
		{tls: true, address: "h:1", vhost: "a/b", user: "u", password: "p", named: true},
		{address: "[::1]:5672", vhost: "/"},
		{tls: true, address: "h:5671", vhost: "v"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(server{})); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}

// frameBody is the type of a frame with a part of a body.
const frameBody = 3

// frame is one of AMQP.
func frame(kind byte, payload []byte) []byte {
	b := append([]byte{kind, 0, 1}, binary.BigEndian.AppendUint32(nil, uint32(len(payload)))...)
	return append(append(b, payload...), 0xce)
}

// FuzzFilter: whatever a server sends, the filter neither panics nor holds back the
// frames behind it, and passes on the same bytes unless it changes a header.
func FuzzFilter(f *testing.F) {
	head := append(make([]byte, 12), 0x20, 0)
	f.Add(frame(frameHeader, append(slices.Clone(head), 0, 0, 0, 5, 1, 'a', 't', 1, 9)))
	f.Add(frame(frameHeader, append(slices.Clone(head), 0xff, 0xff, 0xff, 0xff)))
	f.Add(frame(frameHeader, head))
	f.Add(frame(frameBody, []byte("body")))
	f.Add([]byte("AMQP\x00\x00\x09\x01"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		v := newFlow()
		v.open() // no reader takes the bytes that it holds back
		out, err := io.ReadAll(newFilter(bytes.NewReader(in), v))
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

func TestNameOfARolesQueueIsItsOwn(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, role := range []string{"a", "a.b", "a_b", "a b", "A", "", strings.Repeat("r", 1000), strings.Repeat("r", 1001), "\xff"} {
		name := ownName("svc.acme.q", role)
		if other, ok := seen[name]; ok {
			t.Errorf("roles %.20q and %.20q share the queue %s", role, other, name)
		}
		seen[name] = role
		for _, left := range leftoverQueues(queue{name: ownName(strings.Repeat("t", maxName), role)}) {
			if len(left) > 255 || seen[left] != "" {
				t.Errorf("role %.20q has the retry queue %q", role, left)
			}
			seen[left] = role
		}
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

func TestAMessageWithoutAnIDSaysSo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   amqp.Delivery
		want string // id; empty: made up
	}{
		{amqp.Delivery{}, ""},
		{amqp.Delivery{Headers: amqp.Table{broker.MetaNoID: "x"}}, ""},
		{amqp.Delivery{MessageId: "a", Headers: amqp.Table{"messageId": "b", broker.MetaNoID: "x"}}, "a"},
		{amqp.Delivery{Headers: amqp.Table{"messageId": "b"}}, "b"},
	} {
		msg := unmarshal("commands", &tt.in)
		if noID := msg.Metadata.Get(broker.MetaNoID); msg.UUID == "" || (noID == "true") != (tt.want == "") || tt.want != "" && (msg.UUID != tt.want || noID != "") {
			t.Errorf("%v: id %q, %q", tt.in, msg.UUID, noID)
		}
	}
}

// TestHeadersWaitInTheNetwork sends headers without bodies until the filter reads no more.
func TestHeadersWaitInTheNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deliver := frame(1, []byte{0, 60, 0, 60})
		header := frame(frameHeader, append(append(make([]byte, 12), 0x80, 0), make([]byte, 100_000)...))
		const n = 2 * maxHeld / 100_000
		v := newFlow()
		s := newFilter(bytes.NewReader(bytes.Repeat(slices.Concat(deliver, header), n)), v)
		var out atomic.Int64
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p := make([]byte, 64<<10)
			for {
				some, err := s.Read(p)
				out.Add(int64(some))
				if err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		if got := out.Load(); got < maxHeld-maxHeld/4 || got > maxHeld+maxHeld/4 {
			t.Errorf("%d bytes were read, want about %d", got, maxHeld)
		}
		for len(v.counted) > 0 { // nothing is added while all wait
			v.release()
			synctest.Wait()
		}
		<-ended
		if !v.bytes.TryAcquire(maxHeld) {
			t.Error("bytes are held when all is handled")
		}
	})
}

// TestWritesMayTakeLongButNotBeStuck has a server read a large message part by part, each
// just in time. Then it reads no more.
func TestWritesMayTakeLongButNotBeStuck(t *testing.T) {
	t.Parallel()
	const parts = 10
	for name, reads := range map[string]int{"a slow server": parts, "a server that reads no more": parts - 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				defer server.Close()
				n := newNetwork(client, nil)
				if _, err := n.Write(bytes.Repeat([]byte("x"), parts*writePart)); err != nil {
					t.Fatal(err)
				}
				for range reads {
					time.Sleep(writeTimeout - time.Millisecond)
					if _, err := io.CopyN(io.Discard, server, writePart); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(writeTimeout + time.Millisecond)
				_, err := n.Write([]byte("x"))
				if failed := err != nil; failed != (reads < parts) {
					t.Errorf("the next write: %v", err)
				}
				server.Close() // so that Close has nothing to wait for
				n.Close()
			})
		})
	}
}
