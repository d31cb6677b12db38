package judge

import (
	"bytes"
	"context"
	_ "embed" // the second judge
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

//go:embed judge.py
var second string

// ErrNoPython says that there is no python3 on this machine.
var ErrNoPython = errors.New("there is no python3 here")

// Second has judge.py judge the histories in some files.
func Second(ctx context.Context, files ...string) ([]Verdict, error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return nil, ErrNoPython
	}
	cmd := exec.CommandContext(ctx, python, append([]string{"-"}, files...)...)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(second), &out, &said
	if err := cmd.Run(); err != nil && (cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1) {
		return nil, fmt.Errorf("judge.py: %w\n%s", err, said.String())
	}
	var all []Verdict
	for lines := json.NewDecoder(&out); lines.More(); {
		var v Verdict
		if err := lines.Decode(&v); err != nil {
			return nil, fmt.Errorf("judge.py: %w", err)
		}
		all = append(all, v)
	}
	if len(all) != len(files) {
		return nil, fmt.Errorf("judge.py judged %d of %d files", len(all), len(files))
	}
	return all, nil
}
