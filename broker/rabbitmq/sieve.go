package rabbitmq

import (
	"bufio"
	"encoding/binary"
	"io"
)

// A sieve reads frames of AMQP 0-9-1 and takes away what would kill the
// connection again and again: the client library ends a connection on which a
// message comes whose headers are nested deeper than 32 (amqp091-go v1.16.0),
// the server gives the message back to the queue, and delivers it first to the
// next connection. Such headers are taken out of the frame. The message arrives
// without them.
type sieve struct {
	in    *bufio.Reader
	left  int    // bytes of the frame that pass as they are
	ready []byte // of a frame that was looked at
	raw   bool   // what comes is not AMQP, and passes as it is
	valve *valve // nil if nothing is held back
	comes bool   // a delivery was announced
}

// Of a frame: type, channel and size before what it holds, a byte after it.
const (
	frameHead   = 7
	frameMethod = 1
	frameHeader = 2
	frameBody   = 3
	frameBeat   = 8
	maxSieved   = 1 << 20 // bytes; a server says how large its frames are, 128 KiB by default

	classBasic  = 60
	methodGives = 60 // basic.deliver
)

// Of what precedes the properties in a header: class, weight, size of the body,
// and which properties there are.
const (
	headerFixed      = 14
	flagContentType  = 1 << 15
	flagEncoding     = 1 << 14
	flagHeaders      = 1 << 13
	maxDepth         = 16     // of headers in headers; the library takes 32
	maxFields        = 10_000 // of all headers of a message
	lengthOfShort    = 1      // bytes that say how long a short string is
	lengthOfLong     = 4      // the same of a long string, a table and an array
	lengthOfTimeLike = 8
)

func newSieve(in io.Reader, v *valve) *sieve {
	return &sieve{in: bufio.NewReaderSize(in, 64<<10), valve: v}
}

// open holds nothing back any more.
func (s *sieve) open() {
	if s.valve != nil {
		s.valve.open()
	}
}

// Read reads at most one frame.
func (s *sieve) Read(p []byte) (int, error) {
	for s.left == 0 && len(s.ready) == 0 && !s.raw {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	switch {
	case s.raw:
		return s.in.Read(p)
	case len(s.ready) > 0:
		n := copy(p, s.ready)
		s.ready = s.ready[n:]
		return n, nil
	}
	n, err := s.in.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// next looks at the frame that comes.
func (s *sieve) next() error {
	head, err := s.in.Peek(frameHead)
	if err != nil {
		return err
	}
	kind, size := head[0], binary.BigEndian.Uint32(head[3:])
	switch {
	case kind != frameMethod && kind != frameHeader && kind != frameBody && kind != frameBeat, size > maxSieved:
		s.raw = true // the library says what is wrong with it
		return nil
	case kind == frameHeader && size >= headerFixed:
		frame := make([]byte, frameHead+int(size)+1)
		if _, err := io.ReadFull(s.in, frame); err != nil {
			return err
		}
		if s.comes && s.valve != nil {
			s.valve.add(int64(len(frame)) + bodySize(frame))
		}
		s.comes = false
		s.ready = sieved(frame)
		return nil
	case kind == frameMethod && size >= 4 && s.valve != nil:
		method, err := s.in.Peek(frameHead + 4)
		if err != nil {
			return err
		}
		if binary.BigEndian.Uint16(method[frameHead:]) == classBasic && binary.BigEndian.Uint16(method[frameHead+2:]) == methodGives {
			s.comes = true
			s.valve.wait()
		}
	}
	s.left = frameHead + int(size) + 1
	return nil
}

// bodySize returns how large the body after a header is.
func bodySize(frame []byte) int64 {
	return int64(min(binary.BigEndian.Uint64(frame[frameHead+4:]), 1<<40))
}

// sieved returns the frame of a header without the headers that the library
// can't read.
func sieved(frame []byte) []byte {
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

// A walker looks at headers that nobody has decoded yet.
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
