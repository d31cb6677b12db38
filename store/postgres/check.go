package postgres

import (
	"context"
	"errors"
	"fmt"
)

// errReplica says that a server takes no writes.
var errReplica = errors.New("the server takes no writes: it is a replica")

// lockNotAvailable is the code of the error for a lock that was not free in time.
const lockNotAvailable = "55P03"

// Check returns the reason why the database can't work, as far as it can be found without a
// write: the server does not answer, takes no writes, can't keep the promises of the service
// (then the error wraps [timer.ErrFatal]), or another transaction has locked the tables.
func (s *Store) Check(ctx context.Context) error {
	err := s.check(ctx)
	var replica bool
	if err == nil {
		err = readTx(ctx, s.db, step{text: sqlWritable, each: scan(&replica)}, step{text: sqlLockSoon}, step{text: sqlLockTables})
	}
	switch {
	case replica:
		err = errReplica
	case codeOf(err) == lockNotAvailable:
		err = fmt.Errorf("another transaction holds a lock on the tables, see pg_locks: %w", err)
	}
	return classify("check the database", err)
}
