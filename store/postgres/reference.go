package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// referenceName is the name of the foreign key.
const referenceName = "timer_schedules_service_call"

// ReferenceServiceCalls ties timers to the host's table service_calls with a foreign key: a
// timer needs its service call, and is deleted with it. The call is optional, and a second
// call does nothing. Run it after [Migrate]. The host's table must have (tenant_id,
// service_call_id) as its primary key or as a unique one. An error names the missing columns,
// or how many timers have no service call.
//
// Other transactions wait only briefly: the reference first holds for new timers, and then
// the old ones are checked while writes go on.
func ReferenceServiceCalls(ctx context.Context, db *sql.DB) error {
	const doing = "reference service_calls"
	if err := Verify(ctx, db); err != nil {
		return classify(doing, err)
	}
	return classify(doing, withConn(ctx, db, reference))
}

func reference(ctx context.Context, c *pgx.Conn) error {
	var referenced, valid bool
	var parents int64
	if err := send(ctx, c, step{text: sqlReference, args: []any{referenceName}, each: scan(&referenced, &valid, &parents)}); err != nil {
		return err
	}
	switch {
	case valid:
		return nil
	case parents != 2:
		return errors.New("there is no table service_calls with the columns tenant_id and service_call_id: create it first")
	case !referenced:
		if err := addReference(ctx, c); err != nil {
			return err
		}
	}
	var unreferenced int64
	if err := send(ctx, c, step{text: sqlUnreferenced, each: scan(&unreferenced)}); err != nil {
		return err
	}
	if unreferenced > 0 {
		_, err := c.Exec(ctx, `ALTER TABLE timer_schedules DROP CONSTRAINT `+referenceName)
		return errors.Join(fmt.Errorf("%d timers have no service call: add their service calls, or delete them, first", unreferenced), err)
	}
	_, err := c.Exec(ctx, `ALTER TABLE timer_schedules VALIDATE CONSTRAINT `+referenceName)
	return err
}

// addReference adds the foreign key for new timers. It needs a lock on both tables, and gives
// up soon if it does not get them, to be tried again: while it waits, all writes wait behind
// it.
func addReference(ctx context.Context, c *pgx.Conn) error {
	defer rollBack(ctx, c)
	err := send(ctx, c, step{text: beginWriting}, step{text: sqlSettings, args: []any{false}}, step{text: `ALTER TABLE timer_schedules
		ADD CONSTRAINT ` + referenceName + ` FOREIGN KEY (tenant_id, service_call_id)
		    REFERENCES service_calls (tenant_id, service_call_id) ON DELETE CASCADE NOT VALID`}, step{text: commit})
	if codeOf(err) == "42830" {
		return fmt.Errorf("service_calls needs the primary key (tenant_id, service_call_id), or a unique one: %w", err)
	}
	return err
}
