// Package schema is the wire contract for machines: a JSON Schema (draft 2020-12) of
// each message and of its headers, and an AsyncAPI 3.0 document of the
// channels on each broker. The files are made from package envelope and from the
// drivers by this package's test; docs/messages.md says the same for people.
//
// A schema can't express every rule of [envelope.Decode]. The rest is listed in its
// keyword $comment.
//
// [envelope.Decode]: https://pkg.go.dev/github.com/event-service-agent/timer-service/envelope#Decode
package schema

import (
	"bytes"
	"embed"
	"io/fs"
	"strings"
)

// Version is that of the contract. The minor number grows when something is added
// that older producers and consumers need not know, the major number when one of
// them may break. It is part of the $id of each schema.
const Version = "1.1"

//go:embed asyncapi.json
var asyncAPI []byte

//go:embed [A-Z]*.json
var schemas embed.FS

// AsyncAPI returns the AsyncAPI 3.0 document, as JSON. It names the topics that the
// drivers have if nothing is configured.
func AsyncAPI() []byte { return bytes.Clone(asyncAPI) }

// Of returns the JSON Schema with a name of [Names], or nil if there is none.
func Of(name string) []byte {
	text, err := schemas.ReadFile(name + ".json")
	if err != nil {
		return nil
	}
	return text
}

// Names returns the names of all schemas, sorted: types of messages, with
// CloudEvent at the end for messages in that format, and the headers.
func Names() []string {
	names, _ := fs.Glob(schemas, "*.json") // the pattern is well formed
	for i, name := range names {
		names[i] = strings.TrimSuffix(name, ".json")
	}
	return names
}
