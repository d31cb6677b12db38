package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDoctorPrintsALineForEachFinding has a database that others may read.
func TestDoctorPrintsALineForEachFinding(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "timers.db")
	environ := []string{"TIMER_DB_PATH=" + db, "TIMER_HTTP_ADDR="}
	do(t, environ, "doctor").wants(t, exitOK).prints(t, "ok       schema      sqlite "+db+" has none yet")

	do(t, environ, "migrate").wants(t, exitOK)
	must(t, os.Chmod(db, 0o644))
	do(t, environ, "doctor").wants(t, exitFailure).says(t, "timer-service: 1 bad, ").
		prints(t, "bad      files       others may read or write "+db).prints(t, " && chmod 0600 ")
	for line := range strings.Lines(do(t, environ, "doctor", "-o", "json").wants(t, exitFailure).stdout) {
		var f finding
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Check == "" || f.Text == "" || (f.Do == "") != (f.State == "ok") {
			t.Errorf("%s: %v", line, err)
		}
	}
	do(t, append(environ, "TIMER_BATCH_SIZE=many"), "doctor").wants(t, exitUsage).says(t, `batch_size="many" (TIMER_BATCH_SIZE)`)
	do(t, append(environ, "TIMER_QUOTAS_FILE=/nowhere/quotas.yaml"), "doctor").wants(t, exitUsage).says(t, "/nowhere/quotas.yaml")
}
