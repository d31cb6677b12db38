package postgres

import (
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/pgtest"
)

// TestManyDeferredEventsAreHastenedInSteps has more events wait for their handler than one statement
// may change: a million take longer than its timeout, and until they are due no event is retried.
func TestManyDeferredEventsAreHastenedInSteps(t *testing.T) {
	t.Parallel()
	const many = 25_000
	s := openAt(t, pgtest.URL(t), relaxed)
	run(t, s, `INSERT INTO timer_outbox_deferred (seq, appended_at, retry_at, attempts, shard, destination, id, payload, headers, last_error)
		SELECT n, now(), now() + interval '1 hour', 1, 0, 'tenant-' || n % 3, 'id', '', '{}', 'failed' FROM generate_series(1, $1::bigint) AS n`, many)
	run(t, s, `CREATE FUNCTION few() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF (SELECT count(*) FROM changed) > 10000 THEN RAISE 'a statement has changed % rows', (SELECT count(*) FROM changed); END IF;
			RETURN NULL;
		END $$`)
	run(t, s, `CREATE TRIGGER few AFTER UPDATE ON timer_outbox_deferred REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION few()`)
	now := time.Now()
	must(t, s.Hasten(t.Context(), now))
	if rows, err := s.Deferred(t.Context(), now, "", 2*many, 2*many); err != nil || len(rows) != many {
		t.Errorf("%d events are due, %v, want %d", len(rows), err, many)
	}
}
