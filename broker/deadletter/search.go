package deadletter

import (
	"errors"
	"slices"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
)

// ErrGone says that there is no dead letter with the id of [Filter.After], so that it is not
// known where to go on.
var ErrGone = errors.New("the dead letter of after is gone: begin again with the first page")

// A search finds the dead letters that fit a filter, among those of a visit.
type search struct {
	filter Filter
	from   string // where the visit begins, see [broker.MetaSeek]
	after  string // id of the dead letter behind which the search begins; empty once it has begun
	only   bool   // the first dead letter ends the search

	fitting  int                // dead letters that fit
	bytes    int                // of their bodies
	examined []*message.Message // dead letters of the last call of find
	last     Message            // the last one that was compared with the filter
	stays    string             // id of the last one that was examined and stays
}

// search returns a search for the dead letters that fit.
func (f Filter) search() *search {
	s := &search{}
	s.after, s.from = cutRef(f.After)
	if len(f.IDs) > 0 {
		ids := make([]string, len(f.IDs))
		for i, ref := range f.IDs {
			var from string
			if ids[i], from = cutRef(ref); from != "" && len(ids) == 1 {
				s.from, s.only = from, true
			}
		}
		f.IDs = ids
	}
	s.filter = f
	return s
}

// cutRef returns the id in the text of [Message.Ref], or of Next in a [Summary], and where a
// visit can begin with its dead letter.
func cutRef(ref string) (id, from string) {
	i := strings.LastIndexByte(ref, '@')
	if i < 0 || strings.Trim(ref[i+1:], "0123456789") != "" {
		return ref, ""
	}
	return ref[:i], ref[i+1:]
}

// find returns the dead letters of a batch that fit, and the messages that they are. The end of
// the search is the error errLimit.
func (s *search) find(routing broker.Routing, batch []*message.Message) (letters []Message, of []*message.Message, end error) {
	s.examined = s.examined[:0]
	for _, msg := range batch {
		if MarkOf(msg) != "" {
			continue
		}
		m := Read(routing, msg)
		if s.missed() || s.after == m.ID {
			s.examined = append(s.examined, msg)
			if s.after == m.ID {
				s.after = ""
			}
			continue
		}
		s.after = "" // it is gone, and the visit began behind it
		fits := s.filter.Fits(m)
		if fits && s.full(m) {
			return letters, of, errLimit
		}
		s.last = m
		s.examined = append(s.examined, msg)
		if fits {
			s.fitting, s.bytes = s.fitting+1, s.bytes+len(m.Body)
			letters, of = append(letters, m), append(of, msg)
		}
		if s.only = s.only || len(s.filter.IDs) > 0 && s.fitting == len(s.filter.IDs); s.only {
			return letters, of, errLimit
		}
	}
	return letters, of, nil
}

// full reports whether a dead letter that fits is one too many.
func (s *search) full(m Message) bool {
	f := s.filter
	return f.Limit > 0 && s.fitting == f.Limit || f.Bytes > 0 && s.fitting > 0 && s.bytes+len(m.Body) > f.Bytes
}

// removed notes which messages of the last batch are removed.
func (s *search) removed(messages []*message.Message) {
	for _, msg := range s.examined {
		if !slices.Contains(messages, msg) {
			s.stays = idOf(msg)
		}
	}
}

// missed reports whether the dead letter behind which the search begins was not found.
func (s *search) missed() bool { return s.after != "" && s.from == "" }

// next returns where the next search goes on. Where a visit can't begin with a dead letter, that
// is behind the last one that stays.
func (s *search) next() string {
	switch {
	case s.last.ID == "":
		return s.filter.After
	case s.last.Seek != "":
		return s.last.Ref()
	}
	return s.stays + "@"
}
