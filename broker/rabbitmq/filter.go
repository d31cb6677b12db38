package rabbitmq

import (
	"bufio"
	"encoding/binary"
	"io"
	"sync"
)

// A filter reads frames of AMQP 0-9-1 and removes headers that would end the
// connection again and again: the client library ends a connection when a message
// comes whose headers are nested deeper than 32 (amqp091-go v1.16.0), the server
// requeues the message, and delivers it first to the next connection. Such a
// message arrives without headers.
type filter struct {
	in        *bufio.Reader
	left      int    // bytes of the frame that are read as they are
	ready     []byte // of a frame that was examined
	raw       bool   // what comes is not AMQP, and is read as it is
	flow      *flow  // nil if nothing is held back
	announced bool   // a delivery was announced
}

// Of a frame: type, channel and size before what it holds, a byte after it.
const (
	frameHead   = 7
	frameMethod = 1
	frameHeader = 2
	frameBody   = 3
	frameBeat   = 8
	maxFiltered = 1 << 20 // bytes; the largest frame, of which a server has 128 KiB by default

	classBasic    = 60
	methodDeliver = 60 // basic.deliver
)

// Of what precedes the properties in a header: class, weight, size of the body,
// and which properties there are.
const (
	headerFixed      = 14
	flagContentType  = 1 << 15
	flagEncoding     = 1 << 14
	flagHeaders      = 1 << 13
	maxDepth         = 16     // of headers in headers; the library reads 32
	maxFields        = 10_000 // of all headers of a message
	lengthOfShort    = 1      // bytes that say how long a short string is
	lengthOfLong     = 4      // the same of a long string, a table and an array
	lengthOfTimeLike = 8
)

func newFilter(in io.Reader, f *flow) *filter {
	return &filter{in: bufio.NewReaderSize(in, 64<<10), flow: f}
}

// open holds nothing back any more.
func (f *filter) open() {
	if f.flow != nil {
		f.flow.open()
	}
}

// Read reads at most one frame.
func (f *filter) Read(p []byte) (int, error) {
	for f.left == 0 && len(f.ready) == 0 && !f.raw {
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	switch {
	case f.raw:
		return f.in.Read(p)
	case len(f.ready) > 0:
		n := copy(p, f.ready)
		f.ready = f.ready[n:]
		return n, nil
	}
	n, err := f.in.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, err
}

// next examines the frame that comes.
func (f *filter) next() error {
	head, err := f.in.Peek(frameHead)
	if err != nil {
		return err
	}
	kind, size := head[0], binary.BigEndian.Uint32(head[3:])
	switch {
	case kind != frameMethod && kind != frameHeader && kind != frameBody && kind != frameBeat, size > maxFiltered:
		f.raw = true // the library says what is wrong with it
		return nil
	case kind == frameHeader && size >= headerFixed:
		frame := make([]byte, frameHead+int(size)+1)
		if _, err := io.ReadFull(f.in, frame); err != nil {
			return err
		}
		if f.announced && f.flow != nil {
			f.flow.add(int64(len(frame)) + bodySize(frame))
		}
		f.announced = false
		f.ready = filtered(frame)
		return nil
	case kind == frameMethod && size >= 4 && f.flow != nil:
		method, err := f.in.Peek(frameHead + 4)
		if err != nil {
			return err
		}
		if binary.BigEndian.Uint16(method[frameHead:]) == classBasic && binary.BigEndian.Uint16(method[frameHead+2:]) == methodDeliver {
			f.announced = true
			f.flow.wait()
		}
	}
	f.left = frameHead + int(size) + 1
	return nil
}

// bodySize returns how large the body after a header is.
func bodySize(frame []byte) int64 {
	return int64(min(binary.BigEndian.Uint64(frame[frameHead+4:]), 1<<40))
}

// filtered returns the frame of a header without the headers that the library
// can't read.
func filtered(frame []byte) []byte {
	fixed, properties := frame[:frameHead+headerFixed], frame[frameHead+headerFixed:len(frame)-1]
	flags := binary.BigEndian.Uint16(fixed[frameHead+headerFixed-2:])
	if flags&flagHeaders == 0 {
		return frame
	}
	from := 0
	for _, flag := range []uint16{flagContentType, flagEncoding} {
		if flags&flag == 0 {
			continue
		}
		if from >= len(properties) {
			return frame
		}
		from += lengthOfShort + int(properties[from])
	}
	to, ok := long(properties, from)
	if !ok {
		return frame
	}
	w := walker{fields: maxFields}
	if w.table(properties[from+lengthOfLong:to], maxDepth) {
		return frame
	}
	out := append([]byte(nil), fixed...)
	out = append(out, properties[:from]...)
	out = append(out, properties[to:]...)
	binary.BigEndian.PutUint32(out[3:], uint32(len(out)-frameHead))
	binary.BigEndian.PutUint16(out[frameHead+headerFixed-2:], flags&^flagHeaders)
	return append(out, frame[len(frame)-1])
}

// long returns where something ends that begins with its length. It returns
// false if that is beyond the end.
func long(b []byte, from int) (to int, ok bool) {
	if from < 0 || from+lengthOfLong > len(b) {
		return 0, false
	}
	n := int64(binary.BigEndian.Uint32(b[from:]))
	if n > int64(len(b)-from-lengthOfLong) {
		return 0, false
	}
	return from + lengthOfLong + int(n), true
}

// A walker goes through headers that were not decoded yet.
type walker struct{ fields int } // how many there may still be

// table reports whether the library can read a table.
func (w *walker) table(b []byte, depth int) bool {
	for len(b) > 0 {
		name := lengthOfShort + int(b[0])
		if name > len(b) {
			return false
		}
		n, ok := w.field(b[name:], depth)
		if !ok {
			return false
		}
		b = b[name+n:]
	}
	return true
}

func (w *walker) array(b []byte, depth int) bool {
	for len(b) > 0 {
		n, ok := w.field(b, depth)
		if !ok {
			return false
		}
		b = b[n:]
	}
	return true
}

// fieldBytes are the lengths of values, by their type, as RabbitMQ has them.
var fieldBytes = map[byte]int{
	't': 1, 'B': 1, 'b': 1, 's': 2, 'u': 2, 'I': 4, 'i': 4, 'f': 4, 'D': 5, 'l': lengthOfTimeLike, 'd': lengthOfTimeLike, 'T': lengthOfTimeLike, 'V': 0,
}

// field returns the length of a value with its type.
func (w *walker) field(b []byte, depth int) (int, bool) {
	if w.fields--; len(b) == 0 || w.fields < 0 || depth < 0 {
		return 0, false
	}
	if n, ok := fieldBytes[b[0]]; ok {
		return 1 + n, 1+n <= len(b)
	}
	to, ok := long(b, 1)
	if !ok {
		return 0, false
	}
	switch b[0] {
	case 'S', 'x':
	case 'F':
		ok = w.table(b[1+lengthOfLong:to], depth-1)
	case 'A':
		ok = w.array(b[1+lengthOfLong:to], depth-1)
	default:
		return 0, false
	}
	return to, ok
}

// A flow holds deliveries back in the network while those that have come are too
// large: the server counts messages, and the library keeps all of them.
type flow struct {
	mu   sync.Mutex
	less sync.Cond
	held int64   // bytes of headers and bodies read, and not delivered yet
	each []int64 // the same of each message, in their order
	off  bool    // nothing is held back any more
	came int     // messages that have come
}

// maxHeld is how many bytes of headers and bodies are in memory before the next
// is read.
const maxHeld = 32 << 20

func newFlow() *flow {
	f := new(flow)
	f.less.L = &f.mu
	return f
}

// add counts a message that comes.
func (f *flow) add(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.came++
	f.held += bytes
	f.each = append(f.each, bytes)
}

// count returns how many messages have come.
func (f *flow) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.came
}

// taken counts the oldest message no more.
func (f *flow) taken() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.each) == 0 { // what the filter could not read was not counted
		return
	}
	f.held -= f.each[0]
	f.each = f.each[1:]
	f.less.Broadcast()
}

// wait waits until not too much is held.
func (f *flow) wait() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.held > maxHeld && !f.off {
		f.less.Wait()
	}
}

// open holds nothing back any more.
func (f *flow) open() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.off = true
	f.less.Broadcast()
}
