package main

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

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
	e.out.print(built())
	return nil
}

// A build says from which sources the binary was built.
type build struct {
	Version string  `json:"version"` // of the build or of the module; "(devel)" if none
	Go      string  `json:"go"`      // version of Go
	Schema  schemas `json:"schema"`  // versions of the database schemas it works with
}

// Schemas are versions by the name of the database.
type schemas map[string]int64

// String lists them.
func (s schemas) String() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		all = append(all, fmt.Sprint(name, " ", s[name]))
	}
	return strings.Join(all, ", ")
}

func built() *build {
	module := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		module = info.Main.Version
	}
	return &build{Version: cmp.Or(release, module, "(devel)"), Go: runtime.Version(), Schema: schemas(service.SchemaVersions())}
}

func (b *build) text() string {
	return fmt.Sprintf("%s %s\n%-9s %s\n%-9s %s", program, b.Version, "go", b.Go, "schema", b.Schema)
}
