// Command notices writes, into the folder that is its argument, what a release is made of:
// sbom.cdx.json, a bill of materials in CycloneDX, and LICENSES.txt, the licenses of all
// modules whose packages are in a binary for one of the systems. It runs in the
// folder of the module, and fails if a license is missing or unknown. The version of the release
// is the second argument; the systems, such as linux/amd64, follow.
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const (
	module  = "github.com/event-service-agent/timer-service"
	command = "./cmd/timer-service"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: notices FOLDER VERSION SYSTEM...")
		os.Exit(1)
	}
	if err := write(context.Background(), os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(ctx context.Context, dir, version string, systems []string) error {
	parts, err := dependencies(ctx, systems)
	if err != nil {
		return err
	}
	text, err := licenses(parts)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSES.txt"), text, 0o644); err != nil {
		return err
	}
	var sums []byte
	if sums, err = os.ReadFile("go.sum"); err != nil {
		return err
	}
	var sbom bytes.Buffer
	encoder := cdx.NewBOMEncoder(&sbom, cdx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.EncodeVersion(bill(parts, version, hashes(sums)), cdx.SpecVersion1_6); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "sbom.cdx.json"), sbom.Bytes(), 0o644)
}

// A part is a module, or the standard library, that is in a binary.
type part struct {
	path, version string
	files         map[string]string // texts of the licenses and notices, by file
	id            string            // license, as SPDX names it
}

// dependencies returns the parts by path.
func dependencies(ctx context.Context, systems []string) (map[string]*part, error) {
	parts := make(map[string]*part)
	for _, system := range systems {
		goos, goarch, _ := strings.Cut(system, "/")
		list := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Dir,Standard,Module", command)
		list.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
		list.Stderr = os.Stderr
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("packages for %s: %w", system, err)
		}
		for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct {
				Dir      string
				Standard bool
				Module   *struct {
					Path, Version, Dir string
					Main               bool
				}
			}
			if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			path, v, root := "std", strings.TrimPrefix(runtime.Version(), "go"), runtime.GOROOT() //nolint:staticcheck // the go command that runs this is the one that builds
			switch {
			case !p.Standard && p.Module.Main:
				continue
			case !p.Standard:
				path, v, root = p.Module.Path, p.Module.Version, p.Module.Dir
			}
			if parts[path] == nil {
				parts[path] = &part{path: path, version: v, files: make(map[string]string)}
			}
			if p.Standard {
				p.Dir = root
			}
			if err := parts[path].read(root, p.Dir); err != nil {
				return nil, err
			}
		}
	}
	return parts, nil
}

var isLicence = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|notices?|patents|.*-licen[cs]e)([.-].*)?$`)

// read collects the texts in the folder of a package and above it, up to that of its
// module.
func (p *part) read(root, dir string) error {
	for ; strings.HasPrefix(dir, root); dir = filepath.Dir(dir) {
		files, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, f := range files {
			if f.IsDir() || !isLicence.MatchString(f.Name()) || strings.HasSuffix(f.Name(), ".go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, filepath.Join(dir, f.Name()))
			if err != nil {
				return err
			}
			p.files[filepath.ToSlash(name)] = strings.TrimSpace(string(text))
		}
	}
	return nil
}

// marks are sentences that one kind of license alone has, in the order to look for them.
var marks = []struct{ id, text string }{
	{"Apache-2.0", "Apache License Version 2.0"},
	{"MPL-2.0", "Mozilla Public License Version 2.0"},
	{"MPL-2.0", "Mozilla Public License, version 2.0"},
	{"BSD-3-Clause", "may be used to endorse or promote products derived from this software"},
	{"BSD-2-Clause", "Redistributions in binary form must reproduce the above copyright notice"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"CC0-1.0", "CC0 1.0 Universal"},
}

// identify returns the license that a text is; empty if it is none that we know.
func identify(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, m := range marks {
		if strings.Contains(text, m.text) {
			return m.id
		}
	}
	return ""
}

// licenses returns all texts, and sets the license of each part: that of its folder.
func licenses(parts map[string]*part) ([]byte, error) {
	var all bytes.Buffer
	var missing []error
	for _, path := range slices.Sorted(maps.Keys(parts)) {
		p := parts[path]
		for _, name := range slices.Sorted(maps.Keys(p.files)) {
			fmt.Fprintf(&all, "%s\n%s %s: %s\n\n%s\n\n", strings.Repeat("=", 80), path, p.version, name, p.files[name])
			if id := identify(p.files[name]); p.id == "" && !strings.Contains(name, "/") {
				p.id = id
			}
		}
		if p.id == "" {
			missing = append(missing, fmt.Errorf("%s %s has no license that is known here", path, p.version))
		}
	}
	return all.Bytes(), errors.Join(missing...)
}

// hashes returns the SHA-256 of modules in hex, by path and version.
func hashes(sums []byte) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(string(sums)) {
		if f := strings.Fields(line); len(f) == 3 {
			if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(f[2], "h1:")); err == nil {
				all[f[0]+" "+f[1]] = hex.EncodeToString(sum)
			}
		}
	}
	return all
}

// bill has neither a time nor a serial number, so that it is the same each time.
func bill(parts map[string]*part, version string, hashes map[string]string) *cdx.BOM {
	b := cdx.NewBOM()
	b.Metadata = &cdx.Metadata{Component: &cdx.Component{
		BOMRef: module, Type: cdx.ComponentTypeApplication, Name: "timer-service", Version: version,
		PackageURL: "pkg:golang/" + module + "@" + version, Licenses: &cdx.Licenses{{License: &cdx.License{ID: "MIT"}}},
	}}
	var components []cdx.Component
	var refs []string
	for _, path := range slices.Sorted(maps.Keys(parts)) {
		p := parts[path]
		url := "pkg:golang/" + path + "@" + p.version
		c := cdx.Component{
			BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: p.version, PackageURL: url,
			Licenses: &cdx.Licenses{{License: &cdx.License{ID: p.id}}},
		}
		if sum := hashes[path+" "+p.version]; sum != "" {
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
		}
		components, refs = append(components, c), append(refs, url)
	}
	b.Components = &components
	b.Dependencies = &[]cdx.Dependency{{Ref: module, Dependencies: &refs}}
	return b
}
