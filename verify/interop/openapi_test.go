package interop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// TestGeneratedClient makes a client from docs/openapi.json with @hey-api/openapi-ts,
// compiles client.ts against it, and runs that against the service.
func TestGeneratedClient(t *testing.T) {
	t.Parallel()
	node := need(t, "node")
	dir := folder(t, ".")
	for _, name := range []string{"../../docs/openapi.json", "client.ts"} {
		content, err := os.ReadFile(name)
		harness.Must(t, err)
		write(t, dir, filepath.Base(name), string(content))
	}
	write(t, dir, "openapi-ts.config.mjs", `export default { input: "openapi.json", output: { path: "client", importFileExtension: ".js" } };`)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), node, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("node %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run(installed("@hey-api/openapi-ts/bin/run.js"))
	run(installed("typescript/bin/tsc"), "--strict", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", "--skipLibCheck", "--outDir", "out", "client.ts")

	const token = "a-token-of-a-test"
	address := api(serveIn(t, t.TempDir(), append([]string{"TIMER_HTTP_TOKEN=" + token}, embedded...)...))
	if text := run("out/client.js", address, token); !strings.Contains(text, "as a problem: Unauthorized") {
		t.Errorf("the client ended early:\n%s", text)
	}
}
