// Docs-recording runs the commands of README.md and draws what they print, without the log:
//
//	unshare --net --map-root-user sh -c 'ip link set lo up; docs-recording PROGRAM README.md terminal.svg'
//
// In a network of its own the default ports are free. PROGRAM is timer-service, which
// takes the place of "go run ./cmd/timer-service".
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const (
	columns    = 104 // of the terminal
	cellWidth  = 8   // in pixels
	cellHeight = 19
	goRun      = "go run ./cmd/timer-service "
)

var marked = regexp.MustCompile("<!-- ci:(serve|schedule) -->\n```sh\n(.*)\n```")

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: docs-recording PROGRAM README.md terminal.svg")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := record(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "docs-recording:", err)
		os.Exit(1)
	}
}

// record runs the commands of a page with a program, and writes the picture.
func record(ctx context.Context, program, readme, picture string) error {
	page, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	commands := commandsOf(page)
	if program, err = filepath.Abs(program); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "recording")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	command := func(line string) *exec.Cmd {
		c := exec.CommandContext(ctx, program, strings.Fields(strings.TrimPrefix(line, goRun))...)
		c.Dir = folder
		return c
	}

	serve := command(commands[0])
	reader, writer := io.Pipe()
	serve.Stdout = writer // its log, on stderr, names this machine
	if err := serve.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(serve.Wait(), writer.Close()) }()
	var shown []string
	lines := bufio.NewScanner(reader)
	for lines.Scan() {
		shown = append(shown, lines.Text())
		if strings.HasPrefix(lines.Text(), "ready") {
			break
		}
	}
	rest := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, reader); close(rest) }()
	output, err := command(commands[1]).CombinedOutput()
	stop := serve.Process.Signal(syscall.SIGTERM)
	err = errors.Join(err, stop, <-ended)
	<-rest
	if err != nil {
		return fmt.Errorf("%w: %s\n%s", err, strings.Join(shown, "\n"), output)
	}
	second := strings.Split(strings.TrimSpace(string(output)), "\n")
	return os.WriteFile(picture, draw(commands, [][]string{shown, second}), 0o644)
}

// commandsOf returns the commands of a page that start the service and schedule a timer.
func commandsOf(page []byte) []string {
	var all []string
	for _, block := range marked.FindAllSubmatch(page, -1) {
		all = append(all, string(block[2]))
	}
	return all
}

// draw returns the picture of terminals, one below the other: a command, and what it
// printed.
func draw(commands []string, outputs [][]string) []byte {
	var body bytes.Buffer
	row := 1
	for i, command := range commands {
		if i > 0 {
			row++
			fmt.Fprintf(&body, `<line x1="0" x2="100%%" y1="%[1]d" y2="%[1]d"/>`+"\n", row*cellHeight-cellHeight/2)
		}
		row++
		fmt.Fprintf(&body, `<text class="command" x="16" y="%d">$ %s</text>`+"\n", row*cellHeight, html.EscapeString(command))
		for _, line := range outputs[i] {
			for rest := []rune(line); ; {
				part := rest[:min(columns, len(rest))]
				row++
				fmt.Fprintf(&body, `<text x="16" y="%d">%s</text>`+"\n", row*cellHeight, html.EscapeString(string(part)))
				if rest = rest[len(part):]; len(rest) == 0 {
					break
				}
			}
		}
	}
	width, height := columns*cellWidth+32, (row+1)*cellHeight
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d">
<style>text { font: 13px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #d1d7e0; white-space: pre } .command { fill: #7ee787; font-weight: bold } line { stroke: #3d444d }</style>
<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>
%[3]s</svg>
`, width, height, body.String())
}
