package envelope

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/timer"
)

// EventID returns the id of the event of one generation of a timer, which is
// made of its key, its due time and the command that set it: every attempt has
// the same id, and no other generation has it. The id is a UUID of version 7
// whose time is the due time and whose other 74 bits are cut from the SHA-256
// of tenant, service call and command id, each preceded by its length so that
// no two triples are hashed alike.
func EventID(e timer.DueTimeReached) string {
	seed := make([]byte, 0, 3*4+64+128+128)
	for _, part := range [...]string{string(e.TenantID), string(e.ServiceCallID), e.CommandID} {
		seed = binary.BigEndian.AppendUint32(seed, uint32(len(part)))
		seed = append(seed, part...)
	}
	sum := sha256.Sum256(seed)

	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(timer.RoundUp(e.DueAt).UnixMilli())<<16)
	copy(id[6:], sum[:])
	id[6] = id[6]&0x0f | 0x70 // version 7
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id.String()
}

// DueAt returns the due time that the id of an event holds, whatever format the
// event has. It reports false for an id that is no UUID of version 7.
func DueAt(id string) (time.Time, bool) {
	if len(id) != len("00000000-0000-7000-8000-000000000000") || id[8] != '-' || id[13] != '-' || id[14] != '7' {
		return time.Time{}, false
	}
	high, err := strconv.ParseUint(id[:8], 16, 32)
	if err != nil {
		return time.Time{}, false
	}
	low, err := strconv.ParseUint(id[9:13], 16, 16)
	return time.UnixMilli(int64(high<<16 | low)).UTC(), err == nil
}

// idOf returns the id that the event has, or the one it is to get.
func idOf(e timer.DueTimeReached) string {
	if e.ID != "" {
		return e.ID
	}
	return EventID(e)
}
