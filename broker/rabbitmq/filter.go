package rabbitmq

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"golang.org/x/crypto/cryptobyte"
)

// A filter reads frames of AMQP 0-9-1 and removes headers that would break the connection
// again and again. If the client library can't read the headers of a message, such as tables
// nested deeper than 32, it ends the connection. The server then requeues the message, and
// delivers it first to the next connection. With the filter such a message arrives without
// tables and arrays, or without headers.
//
// Data that is not a frame is passed on as it is, and the library reports the error.
type filter struct {
	in    *bufio.Reader
	frame io.Reader // unread rest of the current frame
	flow  *flow     // nil if nothing limits the memory
}

// A frame has its type, channel and size before its content, and one byte after it.
const (
	frameHead   = 7
	frameHeader = 2       // type of a frame with the properties of a message
	maxFiltered = 1 << 20 // bytes of the largest filtered frame; servers have 128 KiB by default
)

// The properties follow the class, the weight, the size of the body, and flags that say
// which properties exist.
const (
	headerSize      = 4  // offset of the size of the body
	headerFlags     = 12 // offset of the flags
	headerFixed     = 14
	flagContentType = 1 << 15
	flagEncoding    = 1 << 14
	flagHeaders     = 1 << 13
)

// maxFields is the most headers of a message; the library reads 8192 (amqp091-go v1.16.0).
const maxFields = 8000

func newFilter(in io.Reader, f *flow) *filter {
	return &filter{in: bufio.NewReaderSize(in, 64<<10), frame: bytes.NewReader(nil), flow: f}
}

// Read reads at most one frame.
func (f *filter) Read(p []byte) (int, error) {
	for {
		if n, err := f.frame.Read(p); !errors.Is(err, io.EOF) {
			return n, err
		}
		if err := f.next(); err != nil {
			return 0, err
		}
	}
}

// next reads and filters the next frame.
func (f *filter) next() error {
	head, err := f.in.Peek(frameHead)
	if err != nil {
		return err
	}
	size := frameHead + int64(binary.BigEndian.Uint32(head[3:])) + 1
	if head[0] != frameHeader || size < frameHead+headerFixed || size > maxFiltered {
		f.frame = io.LimitReader(f.in, size)
		return nil
	}
	frame := make([]byte, size)
	if _, err := io.ReadFull(f.in, frame); err != nil {
		return err
	}
	if f.flow != nil {
		f.flow.add(size, binary.BigEndian.Uint64(frame[frameHead+headerSize:]))
	}
	f.frame = bytes.NewReader(filtered(frame))
	return nil
}

// filtered returns a header frame whose headers the library can read.
func filtered(frame []byte) []byte {
	var skipped, headers cryptobyte.String
	flags := binary.BigEndian.Uint16(frame[frameHead+headerFlags:])
	rest := cryptobyte.String(frame[frameHead+headerFixed:])
	for _, flag := range []uint16{flagContentType, flagEncoding} {
		if flags&flag != 0 && !rest.ReadUint8LengthPrefixed(&skipped) {
			return frame
		}
	}
	before := len(frame) - len(rest)
	if flags&flagHeaders == 0 || !readLong(&rest, &headers) {
		return frame
	}
	fields := flat(headers)
	out := slices.Concat(frame[:before], binary.BigEndian.AppendUint32(nil, uint32(len(fields))), fields, rest)
	binary.BigEndian.PutUint32(out[3:], uint32(len(out)-frameHead-1))
	return out
}

// readLong reads a long string, a table or an array.
func readLong(in, out *cryptobyte.String) bool {
	var size uint32
	return in.ReadUint32(&size) && in.ReadBytes((*[]byte)(out), int(size))
}

// fieldBytes are the lengths of RabbitMQ's values of fixed length, by their type.
var fieldBytes = map[byte]int{
	't': 1, 'B': 1, 'b': 1, 's': 2, 'u': 2, 'I': 4, 'i': 4, 'f': 4, 'D': 5, 'l': 8, 'd': 8, 'T': 8, 'V': 0,
}

// flat returns encoded headers without tables and arrays, which no handler gets. It returns
// none if the library can't read the others.
func flat(headers cryptobyte.String) (fields []byte) {
	var name, value cryptobyte.String
	var kind byte
	for n := 0; !headers.Empty(); n++ {
		field := headers
		if n == maxFields || !headers.ReadUint8LengthPrefixed(&name) || !headers.ReadUint8(&kind) {
			return nil
		}
		size, fixed := fieldBytes[kind]
		nested := kind == 'F' || kind == 'A'
		switch {
		case fixed && headers.Skip(size):
		case (nested || kind == 'S' || kind == 'x') && readLong(&headers, &value):
		default:
			return nil
		}
		if !nested {
			fields = append(fields, field[:len(field)-len(headers)]...)
		}
	}
	return fields
}
