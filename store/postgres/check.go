package postgres

import (
	"context"
	"errors"
)

// errReplica says that a server takes no writes.
var errReplica = errors.New("the server takes no writes: it is a replica")

// Check returns what keeps the database from working, as far as it can be found
// without a write: the server does not answer, takes no writes, or can't keep what is
// promised (then the error wraps [timer.ErrFatal]).
func (s *Store) Check(ctx context.Context) error {
	err := s.check(ctx)
	var replica bool
	if err == nil {
		err = readTx(ctx, s.db, step{text: sqlWritable, each: scan(&replica)})
	}
	if err == nil && replica {
		err = errReplica
	}
	return classify("check the database", err)
}
