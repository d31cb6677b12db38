package kafka

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
)

// Ranges are offsets that are handled, though some before them are not: in
// order, none touching another. They are kept in the metadata of a committed
// offset, so that whoever gets the partition does not deliver them again.
type ranges []span

// A span is offsets from one up to, but not including, another.
type span struct{ from, to int64 }

const (
	rangesMark = "acked:" // begins metadata that are ours
	maxRanges  = 500      // that are kept; the rest is delivered again
	maxMeta    = 3000     // bytes of metadata; servers take 4096
)

// contain reports whether an offset is handled. It is asked with growing
// offsets, and lets go of what they have passed.
func (r *ranges) contain(offset int64) bool {
	for len(*r) > 0 && (*r)[0].to <= offset {
		*r = (*r)[1:]
	}
	return len(*r) > 0 && (*r)[0].from <= offset
}

// encode returns metadata for a committed offset: the lengths of what is not
// handled and of what is, in turns.
func (r ranges) encode(offset int64) string {
	if len(r) == 0 {
		return ""
	}
	var b []byte
	for _, s := range r {
		n := len(b)
		b = binary.AppendUvarint(b, uint64(s.from-offset))
		b = binary.AppendUvarint(b, uint64(s.to-s.from))
		if base64.RawStdEncoding.EncodedLen(len(b)) > maxMeta {
			b = b[:n]
			break
		}
		offset = s.to
	}
	return rangesMark + base64.RawStdEncoding.EncodeToString(b)
}

// decodeRanges reads metadata of a committed offset. What is not ours, or
// broken, is nothing.
func decodeRanges(offset int64, metadata string) (r ranges) {
	text, ours := strings.CutPrefix(metadata, rangesMark)
	if !ours {
		return nil
	}
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	for len(b) > 0 {
		gap, n := binary.Uvarint(b)
		if n <= 0 {
			return nil
		}
		length, m := binary.Uvarint(b[n:])
		if m <= 0 || length == 0 || gap > 1<<40 || length > 1<<40 {
			return nil
		}
		b = b[n+m:]
		from := offset + int64(gap)
		offset = from + int64(length)
		r = append(r, span{from, offset})
	}
	return r
}
