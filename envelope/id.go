package envelope

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/timer"
)

// EventID returns the id of the event of one generation of a timer, which is
// made of its key, its due time and the command that set it: every attempt has
// the same id, whether it fired or expired, and no other generation has it. The id is a UUID of version 7
// whose time is the due time and whose other 74 bits are cut from the SHA-256
// of tenant, service call and command id.
func EventID(e timer.DueTimeReached) string {
	sum := hash(string(e.TenantID), string(e.ServiceCallID), e.CommandID)
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(timer.RoundUp(e.DueAt).UnixMilli())<<16)
	copy(id[6:], sum[:])
	return format(id, 7)
}

// hash returns the SHA-256 of texts, each preceded by its length so that no two lists of
// texts are hashed alike.
func hash(texts ...string) [sha256.Size]byte {
	seed := make([]byte, 0, 512)
	for _, text := range texts {
		seed = binary.BigEndian.AppendUint32(seed, uint32(len(text)))
		seed = append(seed, text...)
	}
	return sha256.Sum256(seed)
}

// format returns an id as a UUID of a version.
func format(id uuid.UUID, version byte) string {
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id.String()
}

// DueAt returns the due time that the id of an event holds, whatever format the
// event has. It reports false for an id that is no UUID of version 7.
func DueAt(id string) (time.Time, bool) {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(u[:]) >> 16)).UTC(), true
}

// idOf returns the id that the event has, or the one it is to get.
func idOf(e timer.DueTimeReached) string {
	if e.ID != "" {
		return e.ID
	}
	return EventID(e)
}
