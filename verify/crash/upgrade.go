package crash

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// buildCommit builds the service of a commit, or of the newest tag if that is empty, into
// dir, and returns the path of the binary. It must be called somewhere in the repository.
func buildCommit(ctx context.Context, dir, commit string) (string, error) {
	bin, source := filepath.Join(dir, "timer-service-old"), filepath.Join(dir, "old")
	const script = `commit=${1:-$(git describe --tags --abbrev=0 HEAD^)}
cd "$(git rev-parse --show-toplevel)"
mkdir "$2"
git archive "$commit" | tar -x -C "$2"
cd "$2"
go build -o "$3" ./cmd/timer-service`
	if out, err := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script, "bash", commit, source, bin).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the commit %s: %w\n%s", cmp.Or(commit, "of the newest release"), err, out)
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
