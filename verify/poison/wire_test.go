package poison_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// An answer is what the broker said of a message.
type answer struct {
	Seq       uint64 `json:"seq"`
	Duplicate bool   `json:"duplicate"`
	Error     struct {
		Description string `json:"description"`
	} `json:"error"`
	at time.Time // zero if it said nothing
}

// A volley is a shot on its way, and what the broker said of it.
type volley struct {
	shot
	answer
}

// A wire is a connection with the broker that sends what it is given:
// client libraries are too well-behaved.
type wire struct {
	inbox string // where answers come to
	conn  net.Conn
	out   *bufio.Writer
	slots chan struct{} // one for each message that may be unanswered

	mu     sync.Mutex
	fired  []*volley
	open   int      // answers that must come
	closed error    // why no more will come
	said   []string // errors that the broker reported
	quiet  chan struct{}
}

// inFlight is how many messages may wait for the broker's answer.
const inFlight = 512

// dial connects as a user. The name distinguishes connections.
func dial(address, user, name string) (*wire, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	w := &wire{
		inbox: "_INBOX." + name + ".", conn: conn, out: bufio.NewWriterSize(conn, 1<<20),
		slots: make(chan struct{}, inFlight), quiet: make(chan struct{}, 1),
	}
	in := bufio.NewReaderSize(conn, 1<<20)
	if _, err := in.ReadString('\n'); err != nil {
		return nil, err
	}
	fmt.Fprintf(w.out, "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"protocol\":1,\"user\":%q,\"pass\":%q}\r\nSUB %s* 1\r\n", user, user, w.inbox)
	go w.listen(in)
	return w, w.out.Flush()
}

// fire sends a message. It waits while too many are unanswered.
func (w *wire) fire(s shot) error {
	v := &volley{shot: s}
	if v.subject == "" {
		v.subject = commandsTopic
	}
	if !v.overlooked {
		select {
		case w.slots <- struct{}{}:
		default:
			if err := w.out.Flush(); err != nil {
				return err
			}
			w.slots <- struct{}{}
		}
	}
	w.mu.Lock()
	if !v.overlooked {
		w.open++
	}
	reply := fmt.Sprint(w.inbox, len(w.fired))
	w.fired = append(w.fired, v)
	err := w.closed
	w.mu.Unlock()
	if err != nil {
		return fmt.Errorf("the broker closed the connection: %w; it said %q", err, w.said)
	}
	if v.header == "" {
		fmt.Fprintf(w.out, "PUB %s %s %d\r\n", v.subject, reply, len(v.body))
	} else {
		fmt.Fprintf(w.out, "HPUB %s %s %d %d\r\n%s", v.subject, reply, len(v.header), len(v.header)+len(v.body), v.header)
	}
	_, _ = w.out.Write(v.body)
	_, err = w.out.WriteString("\r\n")
	return err
}

// listen reads what the broker says until the connection ends.
func (w *wire) listen(in *bufio.Reader) {
	err := w.read(in)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = err
	for range w.open {
		<-w.slots
	}
	w.open = 0
	w.hush()
}

func (w *wire) read(in *bufio.Reader) error {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "PING": // the broker is configured to be patient
		case words[0] == "-ERR":
			w.mu.Lock()
			w.said = append(w.said, strings.TrimSpace(line))
			w.mu.Unlock()
		case words[0] == "MSG" && len(words) == 4:
			size, err := strconv.Atoi(words[3])
			if err != nil {
				return err
			}
			body := make([]byte, size+2)
			if _, err := io.ReadFull(in, body); err != nil {
				return err
			}
			if err := w.answered(words[1], body[:size]); err != nil {
				return err
			}
		}
	}
}

// answered notes what the broker said of a message.
func (w *wire) answered(inbox string, body []byte) error {
	i, err := strconv.Atoi(inbox[strings.LastIndexByte(inbox, '.')+1:])
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || i >= len(w.fired) {
		return fmt.Errorf("an answer came to %s", inbox)
	}
	v := w.fired[i]
	if len(body) == 0 {
		return nil // it is taken for a part of a batch, of which the rest is to come
	}
	if !v.at.IsZero() {
		w.said = append(w.said, fmt.Sprintf("again of a message of the kind %s: %s, after %+v", v.kind, body, v.answer))
		return nil
	}
	if err := json.Unmarshal(body, &v.answer); err != nil {
		return fmt.Errorf("the broker answers %q: %w", body, err)
	}
	v.at = time.Now()
	if !v.overlooked {
		w.open--
		<-w.slots
		w.hush()
	}
	return nil
}

// hush signals that no answer is missing.
func (w *wire) hush() {
	if w.open > 0 {
		return
	}
	select {
	case w.quiet <- struct{}{}:
	default:
	}
}

// wait waits until the broker has answered all it must.
func (w *wire) wait(limit time.Duration) error {
	if err := w.out.Flush(); err != nil {
		return err
	}
	late := time.After(limit)
	for {
		w.mu.Lock()
		open, closed := w.open, w.closed
		w.mu.Unlock()
		if open == 0 || closed != nil {
			return closed
		}
		select {
		case <-w.quiet:
		case <-late:
			return fmt.Errorf("the broker has not answered %d messages", open)
		}
	}
}
