package timer

import (
	"encoding/binary"
	"hash/crc32"
	"sync"
)

// Checksum returns that of the timer which the command sets, see [Entry.Checksum].
func (c ScheduleTimer) Checksum() int32 {
	return checksum(&c.Key, &c.Version, RoundUp(c.DueAt).UnixMilli(), c.CorrelationID, c.Data)
}

// Checksum returns a CRC-32C over what an event says of a timer: key, version, due time
// in milliseconds, correlation and data. A store keeps it with each timer that waits, as
// the command had it, so that one that was damaged since does not fire. It finds any damage of up to 32 bits in a row.
func (e Entry) Checksum() int32 {
	return checksum(&e.Key, &e.Version, e.DueAt.UnixMilli(), e.CorrelationID, e.Data)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// buffers are for one checksum each, so that none allocates.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func checksum(k *Key, v *Version, due int64, correlation, data string) int32 {
	buffer := buffers.Get().(*[]byte)
	b := (*buffer)[:0]
	for _, text := range [...]string{string(k.TenantID), string(k.ServiceCallID), v.CommandID, correlation, data} {
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(text))), text...)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(v.TimestampMS))
	b = binary.LittleEndian.AppendUint64(b, uint64(due))
	sum := int32(crc32.Checksum(b, castagnoli))
	*buffer = b
	buffers.Put(buffer)
	return sum
}
