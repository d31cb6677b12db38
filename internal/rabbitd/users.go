package rabbitd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Rule is a row of the table of permissions in docs/brokers/rabbitmq.md.
type Rule struct {
	Who      string
	Patterns []string // for configure, write and read
}

// A Page is docs/brokers/rabbitmq.md.
type Page string

// ReadPage reads the page.
func ReadPage(file string) (Page, error) {
	text, err := os.ReadFile(file)
	return Page(text), err
}

// Rules returns the table of permissions.
func (p Page) Rules() (all []Rule) {
	_, section, _ := strings.Cut(string(p), "## Permissions")
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), "|")
		if len(cells) != 6 || !strings.Contains(line, "`^") {
			continue
		}
		r := Rule{Who: strings.TrimSpace(cells[1])}
		for _, cell := range cells[2:5] {
			if cell = strings.TrimSpace(cell); cell == "the same" {
				cell = r.Patterns[0]
			}
			r.Patterns = append(r.Patterns, strings.ReplaceAll(strings.Trim(cell, "`"), "\x00", "|"))
		}
		all = append(all, r)
	}
	return all
}

// Rule returns the permissions of some.
func (p Page) Rule(who string) (Rule, error) {
	all := p.Rules()
	i := slices.IndexFunc(all, func(r Rule) bool { return r.Who == who })
	if i < 0 {
		return Rule{}, fmt.Errorf("docs/brokers/rabbitmq.md has no permissions for %s", who)
	}
	return all[i], nil
}

// TopicPermissions returns the arguments of the command that the page shows for the user acme, for a
// user of the default virtual host.
func (p Page) TopicPermissions(user string) ([]string, error) {
	const command = "set_topic_permissions"
	_, line, found := strings.Cut(string(p), "rabbitmqctl "+command+" -p my-vhost acme ")
	if !found {
		return nil, fmt.Errorf("docs/brokers/rabbitmq.md does not show %s", command)
	}
	line, _, _ = strings.Cut(line, "\n")
	return append([]string{command, user}, strings.Fields(strings.ReplaceAll(line, "'", ""))...), nil
}

// AddUser adds a user with the permissions of a rule, and returns the URL that it connects with.
func (s *Server) AddUser(ctx context.Context, name string, r Rule) (string, error) {
	const password = "secret"
	for _, args := range [][]string{{"add_user", name, password}, append([]string{"set_permissions", name}, r.Patterns...)} {
		if _, err := s.Tool(ctx, "rabbitmqctl", args...); err != nil {
			return "", err
		}
	}
	return "amqp://" + name + ":" + password + "@" + s.address() + "/", nil
}

// Tool runs one of RabbitMQ's programs for operators, and returns its output.
func (s *Server) Tool(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(s.script), name), append([]string{"-q", "-n", s.node()}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "RABBITMQ_CONF_ENV_FILE=" + filepath.Join(s.dir, "none")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %q: %w\n%s", name, args, err, out)
	}
	return string(out), nil
}
