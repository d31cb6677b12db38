package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"
)

// TestNoQuestionNeedsATemporaryFile asks the connections: the image has no folder for such files.
func TestNoQuestionNeedsATemporaryFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	s := openAt(t, path, Options{})
	r, err := OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for name, db := range map[string]*sql.DB{"writes": s.db, "reads": s.reads, "reads next to a service": r.reads} {
		var store int
		if err := db.QueryRowContext(t.Context(), "PRAGMA temp_store").Scan(&store); err != nil || store != 2 {
			t.Errorf("the one that %s: temp_store is %d, %v, want 2, which is memory", name, store, err)
		}
	}
}
