package interop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// TestClientForTypeScript runs the tests of the package, with the service itself, and its
// program that uses the API.
func TestClientForTypeScript(t *testing.T) {
	t.Parallel()
	dir := packClient(t)
	cmd := exec.CommandContext(t.Context(), need(t, "npm"), "test")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TIMER_SERVICE="+harness.Binary(t))
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "# SKIP") {
		t.Fatalf("npm test: %v\n%s", err, out)
	}

	command := typeScript(t, "http.mts")
	cmd = exec.CommandContext(t.Context(), command[0], command[1:]...)
	data := t.TempDir()
	cmd.Env = append(os.Environ(), "API="+api(serveIn(t, data, embedded...)))
	out, err = cmd.CombinedOutput()
	order := regexp.MustCompile(`(order-[0-9a-f-]{36}) is scheduled`).FindSubmatch(out)
	if err != nil || order == nil {
		t.Fatalf("http.mts: %v\n%s", err, out)
	}
	awaitState(t, data, string(order[1]), "Reached")
}

// typeScript compiles a program with all checks, next to the libraries of package.json and the
// client as npm packs it.
func typeScript(t *testing.T, file string) []string {
	t.Helper()
	program, err := os.ReadFile(filepath.Join(typeScriptPrograms, file))
	harness.Must(t, err)
	node, dir, packed := need(t, "node"), folder(t, "."), packClient(t)
	client := filepath.Join(dir, "..", "node_modules", "@event-service-agent", "timer-client")
	get(t, client, need(t, "npm"), "install", "--no-save", "--no-audit", "--no-fund", "--prefix", filepath.Dir(dir), filepath.Join(packed, "packed.tgz"))
	write(t, dir, "timer.mts", string(program))
	compile := exec.CommandContext(t.Context(), node, installed("typescript/bin/tsc"),
		"--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck", "timer.mts")
	compile.Dir = dir
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("tsc: %v\n%s", err, out)
	}
	return []string{node, filepath.Join(dir, "timer.mjs")}
}

// packClient returns a copy of the client, next to the vectors, in which npm has packed it.
func packClient(t *testing.T) string {
	t.Helper()
	root := filepath.Join(harness.Folder(t), "repository")
	dir := filepath.Join(root, "clients", "typescript")
	installing.Lock()
	for _, name := range []string{"clients/typescript/src", "clients/typescript/test", "clients/typescript/examples", "clients/typescript/scripts", "envelope"} {
		to := filepath.Join(root, filepath.FromSlash(name))
		if _, err := os.Stat(to); err == nil {
			continue
		}
		harness.Must(t, os.CopyFS(to, os.DirFS(filepath.Join("..", "..", filepath.FromSlash(name)))))
	}
	for _, name := range []string{"package.json", "package-lock.json", "tsconfig.json", "README.md", "LICENSE"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "clients", "typescript", name))
		harness.Must(t, err)
		write(t, dir, name, string(content))
	}
	installing.Unlock()
	get(t, filepath.Join(dir, "packed.tgz"), need(t, "bash"), "-euc",
		`cd "$1"; npm ci --no-audit --no-fund; mv "$(npm pack --silent | tail -1)" packed.tgz`, "bash", dir)
	return dir
}
