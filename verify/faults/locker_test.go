package faults_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	"github.com/event-service-agent/timer-service/store/sqlite"
)

// lockFile is the environment variable that names a database to the program that holds
// its write lock.
const lockFile = "LOCK_FILE"

// hold takes the write lock of a database, and holds it until the process is killed.
func hold() int {
	db, err := sql.Open("sqlite", sqlite.DSN(os.Getenv(lockFile)))
	if err == nil {
		_, err = db.BeginTx(context.Background(), nil) // which locks, see sqlite.DSN
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("locked")
	select {}
}
