package migration_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

func TestMigrationsAreNumberedAndGoForward(t *testing.T) {
	t.Parallel()
	for store, version := range map[string]int64{"postgres": postgres.SchemaVersion, "sqlite": sqlite.SchemaVersion} {
		files, err := filepath.Glob(filepath.Join("..", "..", "store", store, "migrations", "*"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 || int64(len(files)) != version {
			t.Errorf("SchemaVersion of %s is %d, there are %d migrations", store, version, len(files))
		}
		for i, f := range files {
			if number, err := goose.NumericComponent(f); number != int64(i+1) || err != nil {
				t.Errorf("%s has the number %d (%v), want %d: they begin at 1 and have no gaps", f, number, err, i+1)
			}
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "+goose Down") || strings.Contains(string(text), "NO TRANSACTION") {
				t.Errorf("%s: migrations go forward only, each in a transaction", f)
			}
		}
	}
}
