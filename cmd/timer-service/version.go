package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/event-service-agent/timer-service/service"
)

// release is the version of a build without a repository, such as that of the image: -ldflags
// "-X main.release=v1.2.3".
var release string

type versionCmd struct{}

// Help is printed below the summary.
func (versionCmd) Help() string {
	return `Examples:

    timer-service version
    timer-service version -o json`
}

// Run prints the version.
func (versionCmd) Run(e *env) error {
	b := built()
	e.out.print(b, b.text())
	return nil
}

// A build says from which sources the binary was built.
type build struct {
	Version string           `json:"version"` // of the build or of the module; "(devel)" if none
	Go      string           `json:"go"`      // version of Go
	Schema  map[string]int64 `json:"schema"`  // versions of the database schemas it works with
}

func built() *build {
	module := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		module = info.Main.Version
	}
	return &build{Version: cmp.Or(release, module, "(devel)"), Go: runtime.Version(), Schema: service.SchemaVersions()}
}

func (b *build) text() string {
	return program + " " + b.Version + "\n" + fields("go", b.Go, "schema", fmt.Sprintf("postgres %d, sqlite %d", b.Schema["postgres"], b.Schema["sqlite"]))
}
