package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// reference is the foreign key, as it stands in the table.
const reference = `,
    FOREIGN KEY (tenant_id, service_call_id) REFERENCES service_calls (tenant_id, service_call_id) ON DELETE CASCADE
`

// ReferenceServiceCalls ties timers to the host's table service_calls: a timer
// needs its service call, and goes when that is deleted. It is optional, and
// does nothing the second time. Run it after [Migrate]. The host's table must
// have the primary key (tenant_id, service_call_id), or a unique one; an error
// names what is missing, or how many timers have no service call.
//
// SQLite adds a foreign key only by making the table anew, which takes the time
// to copy it: see https://www.sqlite.org/lang_altertable.html, section 7.
func ReferenceServiceCalls(ctx context.Context, db *sql.DB) (err error) {
	const doing = "reference service_calls"
	if err := Verify(ctx, db); err != nil {
		return classify(doing, err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return classify(doing, err)
	}
	defer conn.Close()
	var enforced bool
	if err := conn.QueryRowContext(ctx, `PRAGMA foreign_keys`).Scan(&enforced); err != nil {
		return classify(doing, err)
	}
	if !enforced {
		return classify(doing, errors.New("the handle does not enforce foreign keys: open it with sqlite.DSN"))
	}
	// The old table is dropped, which must neither cascade to tables of the host
	// nor mind their views. Both settings do nothing inside a transaction.
	if _, err := conn.ExecContext(ctx, `PRAGMA foreign_keys = off; PRAGMA legacy_alter_table = on`); err != nil {
		return classify(doing, err)
	}
	defer func() {
		_, restored := conn.ExecContext(context.WithoutCancel(ctx), `PRAGMA foreign_keys = on; PRAGMA legacy_alter_table = off`)
		err = errors.Join(err, classify(doing, restored))
	}()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return classify(doing, err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if _, err := tx.ExecContext(ctx, sqlLock); err != nil {
		return classify(doing, err)
	}
	if err := rebuild(ctx, tx); err != nil {
		return classify(doing, err)
	}
	return classify(doing, tx.Commit())
}

// rebuild makes the table anew, with the reference, unless it has it.
func rebuild(ctx context.Context, tx *sql.Tx) error {
	var referenced, parents, unreferenced int
	err := tx.QueryRowContext(ctx, `
		SELECT (SELECT count(*) FROM pragma_foreign_key_list('timer_schedules')),
		       (SELECT count(*) FROM pragma_table_info('service_calls') WHERE name IN ('tenant_id', 'service_call_id'))`,
	).Scan(&referenced, &parents)
	if err != nil || referenced > 0 {
		return err
	}
	if parents != 2 {
		return errors.New("there is no table service_calls with the columns tenant_id and service_call_id: create it first")
	}
	err = tx.QueryRowContext(ctx, `
		SELECT count(*) FROM timer_schedules
		 WHERE NOT EXISTS (
		       SELECT 1 FROM service_calls p
		        WHERE p.tenant_id = timer_schedules.tenant_id AND p.service_call_id = timer_schedules.service_call_id)`,
	).Scan(&unreferenced)
	if err != nil {
		return err
	}
	if unreferenced > 0 {
		return fmt.Errorf("%d timers have no service call: add their service calls, or delete them, first", unreferenced)
	}
	script, err := rebuildScript(ctx, tx)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, script); err != nil {
		return err
	}
	// It fails if the columns are no key of the host's table.
	if _, err := tx.ExecContext(ctx, `PRAGMA foreign_key_check(timer_schedules)`); err != nil {
		return fmt.Errorf("service_calls needs the primary key (tenant_id, service_call_id), or a unique one: %w", err)
	}
	return nil
}

var tableName = regexp.MustCompile(`^CREATE TABLE "?timer_schedules"?`)

// rebuildScript takes the table, its indexes and its triggers from the schema,
// so that it knows whatever migrations have made of them.
func rebuildScript(ctx context.Context, tx *sql.Tx) (string, error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT sql FROM sqlite_schema
		 WHERE tbl_name = 'timer_schedules' AND type IN ('table', 'index', 'trigger') AND sql IS NOT NULL
		 ORDER BY type <> 'table', rowid`)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var parts []string
	for rows.Next() {
		var part string
		if err := rows.Scan(&part); err != nil {
			return "", err
		}
		parts = append(parts, part)
	}
	if err := rows.Err(); err != nil {
		return "", err
	}
	table := tableName.ReplaceAllString(parts[0], "CREATE TABLE timer_schedules_new")
	end := strings.LastIndex(table, ")")
	parts[0] = strings.TrimRight(table[:end], " \n") + reference + table[end:] + `;
		INSERT INTO timer_schedules_new SELECT * FROM timer_schedules;
		DROP TABLE timer_schedules;
		ALTER TABLE timer_schedules_new RENAME TO timer_schedules`
	return strings.Join(parts, ";\n"), nil
}
