package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A history tells the server that this process began with from another one: a standby that was
// promoted, or a copy that was put back. Numbers, commands and events of this process are for
// that history alone, since its last transactions may be missing in another one.
//
// A server that was not restarted has the history that it had. So each transaction that writes
// names the time of the start, in settings.sql, and fails on another server before it has
// changed anything. Then the history is read: after a restart of the same server it is the same
// timeline of the same cluster, which goes on behind the position that it had. Where the role
// may not read that, a restart can't be told from a loss, and the process ends. Tables that were
// put back while the server ran lack the last rows of the numbers.
type history struct {
	started atomic.Pointer[time.Time] // when the server was started; nil before the first transaction

	mu   sync.Mutex
	last *chronicle // of the last read; nil before that
}

// A chronicle is a row of history.sql.
type chronicle struct {
	started  time.Time
	cluster  int64
	timeline string
	position int64
	written  int64 // last row of the numbers
}

var (
	errOtherHistory = fmt.Errorf("%w: the database has another history than it had: it failed over to another server, or was restored; a restart reads the missing messages", timer.ErrFatal)
	errUnknown      = fmt.Errorf("%w: the server was restarted or replaced, and the role may not read which (grant it EXECUTE on pg_control_system and pg_walfile_name): a restart reads the missing messages", timer.ErrFatal)
)

// verify reads the history, and returns an error that wraps [timer.ErrFatal] if it is not the
// one of before.
func (s *Store) verify(ctx context.Context) error {
	h := &s.history
	h.mu.Lock()
	defer h.mu.Unlock()
	var now chronicle
	err := readTx(ctx, s.db, step{text: sqlHistory[s.opt.Durability], each: store.Scan(now.columns()...)})
	if unreadable[codeOf(err)] {
		now = chronicle{}
		err = readTx(ctx, s.db, step{text: sqlStarted, each: store.Scan(now.columns()...)})
	}
	if err != nil {
		return err
	}
	return h.compare(now)
}

// columns returns the columns of history.sql and started.sql.
func (c *chronicle) columns() []any {
	return []any{&c.started, &c.cluster, &c.timeline, &c.position, &c.written}
}

// compare notes the row that was read, unless it is of another history than before. It is called
// with the lock that was held during the read.
func (h *history) compare(now chronicle) error {
	switch last := h.last; {
	case last == nil:
	case now.written < last.written:
		return errOtherHistory
	case last.started.Equal(now.started):
	case now.timeline == "" || last.timeline == "":
		return errUnknown
	case last.cluster != now.cluster || last.timeline != now.timeline || now.position < last.position:
		return errOtherHistory
	}
	h.last = &now
	h.started.Store(&now.started)
	return nil
}

// wrote notes the last row of the numbers.
func (h *history) wrote(row int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last.written = max(h.last.written, row)
}

// unreadable has the codes of the errors of a server that does not tell its history: to this
// role, or as some hosted ones, to nobody.
var unreadable = map[string]bool{"42501": true, "42883": true, "0A000": true}

// otherHistory is the code of the error of settings.sql on a server that was started at another
// time.
const otherHistory = "42704"

// verified returns when the server was started, for settings.sql. It reads the history before
// the first transaction.
func (s *Store) verified(ctx context.Context) (*time.Time, error) {
	if started := s.history.started.Load(); started != nil {
		return started, nil
	}
	err := s.verify(ctx)
	return s.history.started.Load(), err
}

// restarted verifies the history after an error, if that may be due to another one. An error
// that wraps [timer.ErrFatal] takes the place of the one that it was.
func (s *Store) restarted(ctx context.Context, err error) error {
	if codeOf(err) != otherHistory {
		return err
	}
	if other := s.verify(context.WithoutCancel(ctx)); errors.Is(other, timer.ErrFatal) {
		return other
	}
	return err
}
