package kafkanode

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// ErrNotInstalled says that this machine lacks Java or Maven.
var ErrNotInstalled = errors.New("Java 17 and Maven, which fetches Kafka, are not installed")

//go:embed pom.xml
var pom []byte

//go:embed log4j2.properties
var log4j []byte

// Installed reports whether this machine has Java and Maven.
func Installed() bool {
	for _, program := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			return false
		}
	}
	return true
}

// classPath has Maven fetch Kafka, once in a process, and returns where its files are.
var classPath = sync.OnceValues(func() (string, error) {
	if !Installed() {
		return "", ErrNotInstalled
	}
	dir, err := os.MkdirTemp("", "kafka-pom-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file, result := filepath.Join(dir, "pom.xml"), filepath.Join(dir, "classpath")
	if err := os.WriteFile(file, pom, 0o600); err != nil {
		return "", err
	}
	out, err := exec.Command("mvn", "-q", "-B", "-f", file, "dependency:build-classpath", "-Dmdep.outputFile="+result).CombinedOutput() //nolint:noctx // it is for all callers
	if err != nil {
		return "", fmt.Errorf("fetch Kafka: %w\n%s", err, out)
	}
	text, err := os.ReadFile(result)
	return strings.TrimSpace(string(text)), err
})

// Fetch has Maven fetch Kafka, if it is not here yet, and returns its version.
func Fetch() (version string, err error) {
	path, err := classPath()
	if err != nil {
		return "", err
	}
	for file := range strings.SplitSeq(path, string(os.PathListSeparator)) {
		if name, is := strings.CutPrefix(filepath.Base(file), "kafka_2.13-"); is {
			version = strings.TrimSuffix(name, ".jar")
		}
	}
	return version, nil
}

// java returns the command that runs a class of Kafka in the folder dir.
func java(ctx context.Context, dir, class string, options, args []string) (*exec.Cmd, error) {
	path, err := classPath()
	if err != nil {
		return nil, err
	}
	log := filepath.Join(dir, "log4j2.properties")
	if err := os.WriteFile(log, log4j, 0o600); err != nil {
		return nil, err
	}
	options = append(options, "-Dlog4j2.configurationFile="+log, "-cp", path, class)
	cmd := exec.CommandContext(ctx, "java", append(options, args...)...)
	cmd.Dir = dir
	return cmd, nil
}

// Tool runs a tool, such as org.apache.kafka.tools.TopicCommand for kafka-topics.sh, in a
// folder, and returns its output.
func Tool(ctx context.Context, dir, class string, args ...string) (string, error) {
	cmd, err := java(ctx, dir, class, []string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}, args)
	if err != nil {
		return "", err
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", class, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
