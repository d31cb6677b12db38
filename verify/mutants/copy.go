package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// copyModule copies the files that git knows, as they are now, into a new
// directory, which the caller removes. Those that are gone are left out.
func copyModule(ctx context.Context) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "mutants-"); err != nil {
		return "", err
	}
	const script = `cd "$(git rev-parse --show-toplevel)"
git ls-files -z --deduplicate -- | while IFS= read -r -d "" f; do [ ! -f "$f" ] || printf '%s\0' "$f"; done |
	tar --null --files-from=- -cf - | tar -xf - -C "$1"`
	if out, err := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script, "bash", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return dir, nil
}
