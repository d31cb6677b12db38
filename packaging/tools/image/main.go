// Command image writes an OCI layout with only the service, the same as the
// Dockerfile's, without a daemon: image FOLDER VERSION SECONDS ARCH=BINARY...
// Its time is SECONDS since 1970; the same input gives the same bytes. Certificates are
// those of Mozilla, from a Go module.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const user = 65532

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "usage: image FOLDER VERSION SECONDS ARCH=BINARY...")
		os.Exit(1)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(dir, version, seconds string, binaries []string) error {
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	at := time.Unix(unix, 0).UTC()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, binary := range binaries {
		arch, file, _ := strings.Cut(binary, "=")
		image, err := build(version, at, arch, file)
		if err != nil {
			return fmt.Errorf("image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	_, err = layout.Write(dir, index)
	return err
}

func build(version string, at time.Time, arch, binary string) (v1.Image, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	files, err := archive(at, content)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.Append(image, mutate.Addendum{
		Layer:     layer,
		MediaType: types.OCILayer,
		History:   v1.History{Created: v1.Time{Time: at}, CreatedBy: "packaging/tools/image"},
	}); err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Created, config.OS, config.Architecture = v1.Time{Time: at}, "linux", arch
	config.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", user, user),
		Env:        []string{"PATH=/usr/local/bin", "TIMER_DB_PATH=/data/timer-service/timers.db"},
		Entrypoint: []string{"timer-service"},
		Cmd:        []string{"serve"},
		Volumes:    map[string]struct{}{"/data": {}},
		// Docker's: OCI has no name for it.
		Healthcheck: &v1.HealthConfig{
			Test:     []string{"CMD", "timer-service", "health"},
			Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: time.Minute, Retries: 3,
		},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "timer-service",
			"org.opencontainers.image.version":  version,
			"org.opencontainers.image.licenses": "MIT",
			"org.opencontainers.image.source":   "https://github.com/event-service-agent/timer-service",
		},
	}
	return mutate.ConfigFile(image, config)
}

// archive returns the files of the image.
func archive(at time.Time, binary []byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		header  tar.Header
		content []byte
	}{
		{tar.Header{Name: "data/", Typeflag: tar.TypeDir, Mode: 0o700, Uid: user, Gid: user}, nil},
		{tar.Header{Name: "etc/ssl/certs/ca-certificates.crt", Typeflag: tar.TypeReg, Mode: 0o644}, certificates()},
		{tar.Header{Name: "usr/local/bin/timer-service", Typeflag: tar.TypeReg, Mode: 0o755}, binary},
	} {
		f.header.ModTime, f.header.Size = at, int64(len(f.content))
		if err := w.WriteHeader(&f.header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close() // writes the end
	return out.Bytes(), err
}

// certificates returns the roots without constraints, which a file cannot state.
func certificates() []byte {
	var out []byte
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return out
}
