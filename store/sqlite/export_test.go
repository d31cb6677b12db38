package sqlite

import "database/sql"

// Conn returns the connection that a store on a file of its own writes on.
func (s *Store) Conn() *sql.Conn { return s.known.conn }
