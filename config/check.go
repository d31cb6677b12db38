package config

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// A rule is about settings that are valid one by one, but may not go together.
type rule struct {
	key   string // of the setting that the mistake names
	wrong bool
	fix   string
}

// check returns mistakes about settings that do not go together.
func (c Config) check() (errs []error) {
	table := c.settings()
	for _, r := range c.rules() {
		if s, _ := lookUp(table, r.key); r.wrong {
			errs = append(errs, &Mistake{Key: r.key, Value: s.show(), From: c.origins[r.key].where(), Fix: r.fix})
		}
	}
	return errs
}

func (c Config) rules() []rule {
	const (
		shorter   = "must be shorter than retention, which is "
		ofServers = "it is for the servers of broker_url; set that too, or leave this empty"
		ofNATS    = " for NATS servers; set broker_url too, or leave it empty"
		oneLogin  = "there is one way to log in; set one of broker_username, nats_credentials, nats_nkey and nats_token"
	)
	retention, kind := FormatDuration(c.Retention), string(c.Broker)
	inFile, backups, servers := c.DBURL.Empty(), c.BackupEvery > 0, !c.BrokerURL.Empty()
	inNATS, inKafka, inProcess := c.Broker == NATS, c.Broker == Kafka, c.Broker == GoChannel
	user, credentials, nkey, token := c.BrokerUsername != "", c.NATSCredentials != "", c.NATSNKey != "", !c.NATSToken.Empty()
	own := append(slices.Clone(schemes[c.Broker]), "")
	web, _, _ := net.SplitHostPort(c.HTTPAddr)
	host, port := splitListen(c.NATSListen)
	return []rule{
		{"backup_every", backups && c.BackupEvery < time.Second, "it is too short; set it to 1s or more, such as 1h, or to 0 for no backups"},
		{"backup_every", backups && !inFile, "it copies a SQLite file, and db_url is set: PostgreSQL has pg_basebackup and WAL archiving (continuous archiving), use these; leave it empty"},
		{"backup_every", backups && c.BackupDir == "", "the copies need a folder; set backup_dir too, or leave this empty"},
		{"backup_dir", !backups && c.BackupDir != "", "there are no backups without backup_every; set that too, or leave this empty"},

		{"broker_url", inProcess && servers, "gochannel has no server; leave it empty, or set broker to nats"},
		{"broker_url", !inProcess && !servers && !inNATS, kind + " needs a server; set it, such as " + own[0] + "://host"},
		{
			"broker_url", !inProcess && servers && !allOf(c.BrokerURL, schemes[c.Broker]),
			"broker is " + kind + ": must be URLs with the scheme " + oneOf(own[:len(own)-1]) + ", such as " + own[0] + "://localhost:" + ports[c.Broker],
		},

		{"nats_max_age", inNATS && c.NATSMaxAge >= c.Retention, shorter + retention + ": set either"},
		{"kafka_max_age", inKafka && c.KafkaMaxAge >= c.Retention, shorter + retention + ": set either"},
		{
			"kafka_sasl", inKafka && (c.KafkaSASL == "") == user && !strings.Contains(c.BrokerURL.Reveal(), "@"),
			"a user needs a way to log in: set both kafka_sasl and broker_username, or neither",
		},
		{"kafka_sasl", !inKafka && c.KafkaSASL != "", "it is for Kafka; set broker to kafka, or leave it empty"},

		{"broker_tls_cert", (c.BrokerTLSCert == "") != (c.BrokerTLSKey == ""), "a certificate needs its key: set both broker_tls_cert and broker_tls_key, or neither"},
		{"broker_username", user == c.BrokerPassword.Empty(), "a user needs a password: set both broker_username and broker_password, or neither"},
		{"broker_username", !servers && user, ofServers},
		{"broker_tls_ca", !servers && c.BrokerTLSCA != "", ofServers},
		{"broker_tls_cert", !servers && c.BrokerTLSCert != "", ofServers},

		{"nats_max_age", inNATS && c.NATSMaxAge < c.NATSMinAge, "must not be shorter than nats_min_age, which is " + FormatDuration(c.NATSMinAge) + ": set either"},
		{"nats_credentials", credentials && !(inNATS && servers), "the credentials are" + ofNATS},
		{"nats_credentials", credentials && user, oneLogin},
		{"nats_nkey", nkey && !(inNATS && servers), "the nkey is" + ofNATS},
		{"nats_nkey", nkey && (user || credentials), oneLogin},
		{"nats_token", token && !inNATS, "the token is" + ofNATS},
		{"nats_token", token && (user || credentials || nkey), oneLogin},

		{
			"http_addr", c.HTTPAddr != "" && !IsLoopback(web) && c.HTTPToken.Empty(),
			"every machine that reaches this address could look at timers: set http_token, which requests then need, or an address such as " + defaultHTTPAddr,
		},
		{"http_tls_cert", (c.HTTPTLSCert == "") != (c.HTTPTLSKey == ""), "a certificate needs its key: set both http_tls_cert and http_tls_key, or neither"},
		{
			"http_token", c.HTTPAddr != "" && !IsLoopback(web) && !c.HTTPToken.Empty() && len(c.HTTPToken.Reveal()) < MinToken,
			fmt.Sprintf("machines that reach http_addr could guess it: it must have %d or more characters; openssl rand -hex 16 makes one", MinToken),
		},
		{"receipts_topic", c.ReceiptsTopic != "" && !c.Receipts, "there are no receipts without receipts=true; set that too, or leave this empty"},
		{"http_tenant_tokens_file", c.HTTPTenantTokensFile != "" && c.HTTPToken.Empty(), "without http_token every request sees all tenants; set that too, or leave this empty"},
		{"nats_port", port != "" && c.given("nats_port"), "nats_listen has a port already; remove one"},
		{
			"nats_listen", c.Embedded() && !IsLoopback(host) && !token,
			"every machine that reaches this address could schedule timers and read events: set nats_token, which clients then need, or an address such as 127.0.0.1",
		},
		{"nats_domain", c.NATSDomain != "" && !(inNATS && servers), "the domain is" + ofNATS},
	}
}

// CheckFolders returns a [*Mistake] if copies of the database are wanted and could not be
// written, since backup_dir is missing or the user may not write there. It tries that with
// a file that it removes again.
func (c Config) CheckFolders() error {
	if c.BackupEvery == 0 {
		return nil
	}
	f, err := os.CreateTemp(c.BackupDir, "timers-*.db.partial") // one that is left behind is removed before the next copy
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err == nil {
		return nil
	}
	fix := "the user of the service may not write there: " + err.Error()
	if errors.Is(err, os.ErrNotExist) {
		fix = "there is no such folder, and backups are to be written there; make it: mkdir -m 700 " + c.BackupDir
	}
	return &Mistake{Key: "backup_dir", Value: c.BackupDir, From: c.origins["backup_dir"].where(), Fix: fix}
}

// ports are the default ports of servers.
var ports = map[Broker]string{NATS: "4222", Kafka: "9092", RabbitMQ: "5672"}

// allOf reports whether all of the URLs have one of the schemes. A server of Kafka may have
// no scheme.
func allOf(urls Secret, schemes []string) bool {
	for part := range strings.SplitSeq(urls.Reveal(), ",") {
		scheme, _, found := strings.Cut(strings.TrimSpace(part), "://")
		if found && !slices.Contains(schemes, scheme) || !found && !slices.Contains(schemes, "kafka") {
			return false
		}
	}
	return true
}
