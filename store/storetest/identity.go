package storetest

import (
	"context"

	"github.com/google/uuid"
)

func identities(s *suite) {
	id, name, err := s.store.Identity(s.Context())
	if err != nil || name == "" {
		s.Fatalf("identity %q, %q, %v", id, name, err)
	}
	if u, err := uuid.Parse(id); err != nil || u.Version() != 4 || u.Variant() != uuid.RFC4122 || u.String() != id {
		s.Errorf("identity %q is no UUID of version 4: %v", id, err)
	}
	if again, _, err := s.store.Identity(s.Context()); err != nil || again != id {
		s.Errorf("identity %q, then %q, %v", id, again, err)
	}
	if other, _, err := s.open(s).Identity(s.Context()); err != nil || other == id {
		s.Errorf("another database has the identity %q too, %v", other, err)
	}
}

func checks(s *suite) {
	if err := s.store.Check(s.Context()); err != nil {
		s.Errorf("check: %v", err)
	}
	ended, end := context.WithCancel(s.Context())
	end()
	if err := s.store.Check(ended); err == nil {
		s.Error("check of a context that has ended: no error")
	}
}
