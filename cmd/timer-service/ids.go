package main

import (
	"hash/maphash"

	"github.com/google/uuid"
)

// maxIDs is how many ids publish keeps at least: those of the two minutes for
// which a stream of NATS knows them, at 8,000 a second.
const maxIDs = 1 << 20

// ids knows the bodies of the last ids. A broker that drops an id which it knows
// can't tell that message from another one: ids of CloudEvents are unique for
// their source only, and producers err.
type ids struct {
	most        int               // ids in each of the maps
	seed        maphash.Seed      // of the hashes
	now, before map[uint64]uint64 // hash of the body, by that of the id
}

func newIDs(most int) *ids {
	return &ids{most: most, seed: maphash.MakeSeed(), now: make(map[uint64]uint64)}
}

// of returns the id to publish a body under: its own, or, if that is the one of
// another body, one that follows from the body.
func (s *ids) of(id string, body []byte) string {
	key, value := maphash.String(s.seed, id), maphash.Bytes(s.seed, body)
	first, known := s.now[key]
	if !known {
		first, known = s.before[key]
	}
	if known && first != value {
		return uuid.NewSHA1(uuid.NameSpaceOID, body).String()
	}
	if len(s.now) >= s.most {
		s.now, s.before = make(map[uint64]uint64), s.now
	}
	s.now[key] = value
	return id
}
