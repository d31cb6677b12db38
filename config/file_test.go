package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/config"
)

func TestFileThatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	must(t, os.WriteFile(large, make([]byte, 1<<20+1), 0o600))
	for _, name := range []string{filepath.Join(dir, "absent.yaml"), dir, large} {
		if got := mistakes(t, nil, nil, name); !strings.Contains(got, name) {
			t.Errorf("error %q does not name %s", got, name)
		}
	}
}

func TestFileIsOneListOfPlainValues(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"a list", "- batch_size", "must be lines of key: value"},
		{"one word", "batch_size", "must be lines of key: value"},
		{"two documents", "batch_size: 1\n---\nbatch_size: 2", "must be lines of key: value, and one document"},
		{"a list as a value", "batch_size: [1]", "must be one plain value"},
		{"a mapping as a value", "batch_size:\n  a: 1", "must be one plain value"},
		{"an alias", "batch_size: &a 1\nnats_port: *a", "must be one plain value"},
		{"a tag", "batch_size: !!str 1", "must be one plain value"},
		{"a merge", "<<: {batch_size: 1}", "no such setting"},
		{"a mapping, unknown", "nats:\n  port: 1", "nats ("},
		{"no YAML", "batch_size: 1\n\t- ]", ":2: not valid YAML"},
		{"a colon too many", "batch_size: a: b", ":1: not valid YAML"},
		{"an open bracket", "batch_size: [", "not valid YAML"},
		{"a carriage return", "broker_url: \"0\r0\"0", "not valid YAML"},
		{"a byte that is no UTF-8", "# caf\xe9\nbatch_size: 1", "not valid YAML"},
		{"a tab", "\tbatch_size: 1", "not valid YAML"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := mistakes(t, nil, nil, file(t, tt.text)); !strings.Contains(got, tt.want) {
				t.Errorf("error is %q, want %q in it", got, tt.want)
			}
		})
	}
}

func TestFileWithoutSettingsIsFine(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing\n", "---\n", "~\n", "{}\n"} {
		if _, err := config.Load(nil, nil, file(t, text)); err != nil {
			t.Errorf("file %q: %v", text, err)
		}
	}
}

func TestFileTakesEveryWayToWriteAValue(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"batch_size: 42", `batch_size: "42"`, "batch_size: '42'", "{batch_size: 42}", "batch_size: 42 # why",
		"batch_size: |\n  42\n", "batch_size: >-\n  42\n", `"batch_size": 42`, "\ufeffbatch_size: 42", "batch_size: 42\r\n",
	} {
		c, err := config.Load(nil, nil, file(t, text))
		if err != nil || c.BatchSize != 42 {
			t.Errorf("file %q: batch size %d, %v", text, c.BatchSize, err)
		}
	}
}

// Whatever the file holds, Load does not panic, and a value of broker_url is
// not shown.
func FuzzFile(f *testing.F) {
	f.Add("batch_size: 1\n", "", "")
	f.Add("", "nats://user:", "\n")
	f.Add("", "\"", "\"")
	f.Add("# a\n", "[", "]")
	f.Add("%YAML 1.2\n---\n", "&", " *a")
	f.Add("a: b\n", "!!default ", "\n--- x")
	f.Fuzz(func(t *testing.T, lines, before, after string) {
		const secret = "hunter2-correct-horse"
		if strings.ContainsAny(before, "\r\n") {
			return // on a line of its own the secret may be a name, and names are shown
		}
		_, err := config.Load(nil, nil, file(t, lines+"\nbroker_url: "+before+secret+after))
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("error shows the secret: %v", err)
		}
	})
}
