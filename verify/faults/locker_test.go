package faults_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/store/sqlite"
)

// The environment of the program that holds a database's write lock.
const (
	lockFile = "LOCK_FILE"
	lockFor  = "LOCK_FOR"
)

// hold takes the write lock of a database, holds it for a while, and releases it.
func hold() int {
	if err := holdLock(context.Background(), os.Getenv(lockFile), os.Getenv(lockFor)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func holdLock(ctx context.Context, file, text string) error {
	while, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", sqlite.DSN(file))
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil) // which locks, see sqlite.DSN
	if err != nil {
		return err
	}
	fmt.Println("locked")
	<-time.After(while)
	fmt.Println("letting go")
	return tx.Rollback()
}

// TestForeignProcessHoldsTheLock has another process hold the write lock of the
// database for longer than the service waits for it.
func TestForeignProcessHoldsTheLock(t *testing.T) {
	t.Parallel()
	while := 30 * time.Second
	if testing.Short() {
		while = 8 * time.Second // more than the service waits
	}
	w := open(t)
	other := start(t, "locker", lockFile+"="+database(w.dir), lockFor+"="+while.String())
	locked := other.says("locked", time.Time{}, time.Minute).at
	w.service.says("database is locked", locked, time.Minute)
	if code := other.ends(2 * time.Minute); code != 0 {
		t.Fatalf("the other process ended with exit code %d", code)
	}
	freed := other.says("letting go", locked, time.Second).at
	if n := w.ackedBetween(locked.Add(grace), freed.Add(-grace)); n > 0 {
		t.Errorf("%d commands were acked while nothing could be written", n)
	}
	w.goesOn(100)
	t.Logf("goes on %v after the lock was free", time.Since(freed))
	w.settle(90 * time.Second)
}
