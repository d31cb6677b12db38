package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ErrNoCommit is returned by [BuildCommit] if the repository does not have the commit, as
// a shallow clone.
var ErrNoCommit = errors.New("the repository does not have the commit")

// BuildCommit builds the service of a commit, or of the newest tag if that is empty, into
// dir, and returns the path of the binary. It must be called somewhere in the repository.
func BuildCommit(ctx context.Context, dir, commit string) (string, error) {
	if commit == "" {
		tag, err := exec.CommandContext(ctx, "git", "describe", "--tags", "--abbrev=0", "HEAD^").Output()
		if err != nil {
			return "", fmt.Errorf("%w: there is no release yet: name a commit", ErrNoCommit)
		}
		commit = strings.TrimSpace(string(tag))
	}
	root, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("%w %s: this is no repository", ErrNoCommit, commit)
	}
	if err := exec.CommandContext(ctx, "git", "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		return "", fmt.Errorf("%w %s", ErrNoCommit, commit)
	}
	source := filepath.Join(dir, "old")
	if err := os.Mkdir(source, 0o700); err != nil {
		return "", err
	}
	archive := exec.CommandContext(ctx, "git", "archive", commit)
	archive.Dir = strings.TrimSpace(string(root))
	files, err := archive.Output()
	if err != nil {
		return "", fmt.Errorf("read the commit %s: %w", commit, err)
	}
	unpack := exec.CommandContext(ctx, "tar", "-x", "-C", source)
	unpack.Stdin = bytes.NewReader(files)
	if out, err := unpack.CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpack the commit %s: %w\n%s", commit, err, out)
	}
	bin := filepath.Join(dir, "timer-service-old")
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, "./cmd/timer-service")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the commit %s: %w\n%s", commit, err, out)
	}
	return bin, nil
}

// killAndUpgrade kills an instance. Of the kills a third is while all are old, a third
// while one that is new works next to them, and at the rest old ones become new. The last
// one makes all new that are left.
func (r *run) killAndUpgrade(ctx context.Context, in *instance) error {
	if r.faults >= r.opt.Kills/3 && r.newcomer != nil {
		newcomer := r.newcomer
		r.newcomer = nil
		r.instances = append(r.instances, newcomer)
		if err := r.begin(ctx, newcomer); err != nil {
			return err
		}
	}
	if r.faults >= r.opt.Kills*2/3 {
		in.bin = r.opt.Bin
	}
	if err := r.kill(in); err != nil {
		return err
	}
	if err := r.beginLater(ctx, in); err != nil || r.faults < r.opt.Kills-1 {
		return err
	}
	for _, in := range r.instances {
		if in.bin == r.opt.Bin {
			continue
		}
		if err := r.awaitReady(ctx, in); err != nil {
			return err
		}
		in.bin = r.opt.Bin
		if err := r.end(ctx, in); err != nil {
			return err
		}
		if err := r.begin(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

// outdated reports whether a process of the older version ended since the schema is that
// of the new one.
func (r *run) outdated(l *life) bool {
	if r.opt.Mode != Upgrade || !l.HasEnded() || l.Killed() {
		return false
	}
	_, said := l.Find("use a newer binary", time.Time{})
	return said
}
