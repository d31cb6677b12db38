package kafkanode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Password is that of all users of [Guarded].
const Password = "hunter2-is-secret"

// Guarded returns the options of nodes that know users by SCRAM-SHA-512, and permit what ACLs allow. The
// user admin may do everything. With a folder that has cert.pem and store.pem, the certificate with its key, they
// speak TLS alone.
func Guarded(certs string, users ...string) Options {
	protocol := "SASL_PLAINTEXT"
	opt := Options{Settings: map[string]string{
		"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
		"sasl.enabled.mechanisms":              "SCRAM-SHA-512",
		"authorizer.class.name":                "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":                          "User:admin;User:ANONYMOUS", // controllers log in nowhere
	}}
	if certs != "" {
		protocol = "SASL_SSL"
		opt.Settings["ssl.keystore.type"], opt.Settings["ssl.keystore.location"] = "PEM", filepath.Join(certs, "store.pem")
		opt.Settings["ssl.truststore.type"], opt.Settings["ssl.truststore.location"] = "PEM", filepath.Join(certs, "cert.pem")
	}
	opt.Settings["listeners"] = protocol + "://127.0.0.1:{port},CONTROLLER://{controller}"
	opt.Settings["listener.security.protocol.map"] = protocol + ":" + protocol + ",CONTROLLER:PLAINTEXT"
	opt.Settings["inter.broker.listener.name"] = protocol
	opt.Settings["listener.name."+strings.ToLower(protocol)+".scram-sha-512.sasl.jaas.config"] = Login("admin")
	for _, user := range append(users, "admin") {
		opt.Format = append(opt.Format, "--add-scram", "SCRAM-SHA-512=[name="+user+",password="+Password+"]")
	}
	return opt
}

// Login is the setting sasl.jaas.config of a user.
func Login(user string) string {
	return `org.apache.kafka.common.security.scram.ScramLoginModule required username="` + user + `" password="` + Password + `";`
}

// As returns the options of a client that is a user of a guarded cluster.
func (c *Cluster) As(user string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(strings.Split(c.URL(), ",")...), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.SASL(scram.Auth{User: user, Pass: Password}.AsSha512Mechanism()),
	}
}

// Permit gives a user the permissions that docs/brokers/kafka.md, which is the file page, lists for some, row by
// row. The tenant acme of the page is another one if tenant is not empty.
func Permit(ctx context.Context, admin *kadm.Client, page, user, tenant string, who ...string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	seen := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(line, "|\n "), " | ")
		if len(cells) != 4 || !slices.Contains(who, strings.Trim(cells[0], "`")) {
			continue
		}
		seen[strings.Trim(cells[0], "`")] = true
		if tenant != "" {
			cells[2] = strings.ReplaceAll(cells[2], "acme", tenant)
		}
		if err := allow(ctx, admin, user, cells[2], cells[3]); err != nil {
			return err
		}
	}
	if len(seen) != len(who) {
		return fmt.Errorf("%s has no permissions for some of %q", page, who)
	}
	return nil
}

// allow gives a user the permissions of a row: "topic `timer.commands`", and "Read, Describe".
func allow(ctx context.Context, admin *kadm.Client, user, on, operations string) error {
	kind, name, _ := strings.Cut(on, " ")
	name = strings.Trim(name, "`")
	acl := kadm.NewACLs().Allow("User:" + user).AllowHosts("*").ResourcePatternType(kadm.ACLPatternLiteral)
	switch kind {
	case "topic":
		acl.Topics(name)
	case "prefix":
		acl.Topics(name).ResourcePatternType(kadm.ACLPatternPrefixed)
	case "group":
		acl.Groups(name)
	case "cluster":
		acl.Clusters()
	default:
		return fmt.Errorf("permissions on %q", on)
	}
	var all []kadm.ACLOperation
	for word := range strings.SplitSeq(operations, ", ") {
		operation, err := kmsg.ParseACLOperation(word)
		if err != nil {
			return err
		}
		all = append(all, operation)
	}
	made, err := admin.CreateACLs(ctx, acl.Operations(all...))
	for _, m := range made {
		err = errors.Join(err, m.Err)
	}
	return err
}
