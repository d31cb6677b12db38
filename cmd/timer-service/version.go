package main

import (
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/event-service-agent/timer-service/app/service"
)

// release is the version of a build that knows no repository, such as that of the
// image: -ldflags "-X main.release=v1.2.3".
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

// A build says what the binary was built from.
type build struct {
	Version  string  `json:"version"`            // that the build was given, or of the module; "(devel)" if none
	Go       string  `json:"go"`                 // version of Go
	Schema   schemas `json:"schema"`             // versions of the database schemas it works with
	Revision string  `json:"revision,omitempty"` // commit; none if built outside a repository
	Time     string  `json:"time,omitempty"`     // of the commit
	Modified bool    `json:"modified,omitempty"` // whether there were uncommitted changes
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
	b := &build{Version: "(devel)", Go: runtime.Version(), Schema: schemas(service.SchemaVersions())}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	switch {
	case release != "":
		b.Version = release
	case info.Main.Version != "":
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b *build) text() string {
	text := fmt.Sprintf("%s %s\n%-9s %s\n%-9s %s", program, b.Version, "go", b.Go, "schema", b.Schema)
	if b.Revision != "" {
		text += fmt.Sprintf("\n%-9s %s of %s", "revision", b.Revision, b.Time)
		if b.Modified {
			text += ", modified"
		}
	}
	return text
}
