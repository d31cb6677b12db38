package migration_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// TestSchemaVersionIsThatOfTheLastMigration holds the constants of the stores
// against their files.
func TestSchemaVersionIsThatOfTheLastMigration(t *testing.T) {
	t.Parallel()
	for store, version := range map[string]int{"postgres": postgres.SchemaVersion, "sqlite": sqlite.SchemaVersion} {
		files, err := filepath.Glob(filepath.Join("..", "..", "store", store, "migrations", "*"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) != version {
			t.Errorf("SchemaVersion of %s is %d, there are %d migrations", store, version, len(files))
		}
		for _, f := range files {
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
