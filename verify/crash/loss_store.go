package crash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// sqliteFiles are what a SQLite database consists of, and the lock beside it.
var sqliteFiles = []string{"", "-wal", "-shm", "-journal", ".lock"}

func (f *sqliteFile) wipe(context.Context) error {
	for _, suffix := range sqliteFiles {
		if err := os.Remove(f.path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// copy has the service copy its database while it works.
func (f *sqliteFile) copy(ctx context.Context, r *run) error {
	f.made++
	file := filepath.Join(r.dir, fmt.Sprintf("copy-%d.db", f.made))
	if err := r.instances[0].backup(ctx, file); err != nil {
		return err
	}
	f.copies = append(f.copies, file)
	if len(f.copies) <= kept {
		return nil
	}
	oldest := f.copies[0]
	f.copies = f.copies[1:]
	return os.Remove(oldest)
}

// restore does what the service's help on backups says.
func (f *sqliteFile) restore(ctx context.Context, r *run) error {
	if err := f.wipe(ctx); err != nil {
		return err
	}
	file := f.copies[r.rand.IntN(len(f.copies))]
	fmt.Fprintf(r.opt.Progress, "life %d is over: restore %s\n", r.lives, filepath.Base(file))
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(f.path, text, 0o600)
}

func (d *postgresDatabase) wipe(ctx context.Context) error {
	return d.recreate(ctx, "template1")
}

// recreate makes the database again from a template.
func (d *postgresDatabase) recreate(ctx context.Context, template string) error {
	if err := d.do(ctx, d.admin, "DROP DATABASE "+d.name+" WITH (FORCE)"); err != nil {
		return err
	}
	return d.do(ctx, d.admin, "CREATE DATABASE "+d.name+" TEMPLATE "+template)
}

// copy copies the database on its server, which works only while nobody uses it.
func (d *postgresDatabase) copy(ctx context.Context, r *run) error {
	return r.restart(ctx, func() error { return d.clone(ctx) })
}

// clone adds a copy.
func (d *postgresDatabase) clone(ctx context.Context) error {
	if err := d.disconnect(ctx); err != nil {
		return err
	}
	d.made++
	name := fmt.Sprintf("%s_%d", d.name, d.made)
	if err := d.do(ctx, d.admin, "CREATE DATABASE "+name+" TEMPLATE "+d.name); err != nil {
		return err
	}
	d.copies = append(d.copies, name)
	if len(d.copies) <= kept {
		return nil
	}
	oldest := d.copies[0]
	d.copies = slices.Clone(d.copies[1:])
	return d.do(ctx, d.admin, "DROP DATABASE "+oldest)
}

func (d *postgresDatabase) restore(ctx context.Context, r *run) error {
	name := d.copies[r.rand.IntN(len(d.copies))]
	fmt.Fprintf(r.opt.Progress, "life %d is over: restore %s\n", r.lives, name)
	return d.recreate(ctx, name)
}
