package config

import (
	"net"
	"slices"
	"strings"
	"time"
)

// check returns what is wrong with settings of which each is well formed, but
// which do not go together.
func (c Config) check() []error {
	var errs []error
	table := c.settings()
	refuse := func(wrong bool, key, fix string) {
		if wrong {
			s, _ := lookUp(table, key)
			errs = append(errs, &Mistake{Key: key, Value: s.show(), From: c.origins[key].where(), Fix: fix})
		}
	}
	refuse(c.BackupEvery > 0 && c.BackupEvery < time.Second, "backup_every", "it is too short; set it to 1s or more, such as 1h, or to 0 for no backups")
	refuse(c.BackupEvery > 0 && !c.DBURL.Empty(), "backup_every", "it copies a SQLite file, and db_url is set: PostgreSQL has pg_basebackup and WAL archiving (continuous archiving), use these; leave it empty")
	refuse(c.BackupEvery > 0 && c.BackupDir == "", "backup_every", "the copies need a folder; set backup_dir too, or leave this empty")
	refuse(c.BackupEvery == 0 && c.BackupDir != "", "backup_dir", "there are no backups without backup_every; set that too, or leave this empty")
	servers := !c.BrokerURL.Empty()
	switch {
	case c.Broker == GoChannel:
		refuse(servers, "broker_url", "gochannel has no server; leave it empty, or set broker to nats")
	case !servers:
		refuse(c.Broker != NATS, "broker_url", string(c.Broker)+" needs a server; set it, such as "+schemes[c.Broker][0]+"://host")
	default:
		refuse(!allOf(c.BrokerURL, schemes[c.Broker]), "broker_url", "broker is "+string(c.Broker)+": must be URLs with the scheme "+oneOf(schemes[c.Broker])+", such as "+schemes[c.Broker][0]+"://localhost:"+ports[c.Broker])
	}

	const shorter = "must be shorter than retention, which is "
	refuse(c.Broker == NATS && c.NATSMaxAge >= c.Retention, "nats_max_age", shorter+FormatDuration(c.Retention)+": set either")
	refuse(c.Broker == Kafka && c.KafkaMaxAge >= c.Retention, "kafka_max_age", shorter+FormatDuration(c.Retention)+": set either")
	refuse(c.Broker == Kafka && (c.KafkaSASL == "") != (c.BrokerUsername == "") && !strings.Contains(c.BrokerURL.Reveal(), "@"),
		"kafka_sasl", "a user needs a way to log in: set both kafka_sasl and broker_username, or neither")
	refuse(c.Broker != Kafka && c.KafkaSASL != "", "kafka_sasl", "it is for Kafka; set broker to kafka, or leave it empty")

	refuse((c.BrokerTLSCert == "") != (c.BrokerTLSKey == ""),
		"broker_tls_cert", "a certificate needs its key: set both broker_tls_cert and broker_tls_key, or neither")
	refuse((c.BrokerUsername == "") != c.BrokerPassword.Empty(),
		"broker_username", "a user needs a password: set both broker_username and broker_password, or neither")
	const ofServers = "it is for the servers of broker_url; set that too, or leave this empty"
	refuse(!servers && c.BrokerUsername != "", "broker_username", ofServers)
	refuse(!servers && c.BrokerTLSCA != "", "broker_tls_ca", ofServers)
	refuse(!servers && c.BrokerTLSCert != "", "broker_tls_cert", ofServers)

	refuse(c.Broker == NATS && c.NATSMaxAge < c.NATSMinAge,
		"nats_max_age", "must not be shorter than nats_min_age, which is "+FormatDuration(c.NATSMinAge)+": set either")
	const ofNATS = " for NATS servers; set broker_url too, or leave it empty"
	logins := []bool{c.BrokerUsername != ""} // those that are set before the one being checked
	for _, login := range []struct {
		key, what string
		set       bool
	}{
		{"nats_credentials", "the credentials are", c.NATSCredentials != ""},
		{"nats_nkey", "the nkey is", c.NATSNKey != ""},
		{"nats_token", "the token is", !c.NATSToken.Empty()},
	} {
		refuse(login.set && (c.Broker != NATS || !servers) && (login.key != "nats_token" || !c.Embedded()), login.key, login.what+ofNATS)
		refuse(login.set && slices.Contains(logins, true),
			login.key, "there is one way to log in; set one of broker_username, nats_credentials, nats_nkey and nats_token")
		logins = append(logins, login.set)
	}
	web, _, _ := net.SplitHostPort(c.HTTPAddr)
	refuse(c.HTTPAddr != "" && !IsLoopback(web) && c.HTTPToken.Empty(), "http_addr",
		"every machine that reaches this address could look at timers: set http_token, which requests then need, or an address such as "+defaultHTTPAddr)
	refuse(c.ReceiptsTopic != "" && !c.Receipts, "receipts_topic", "there are no receipts without receipts=true; set that too, or leave this empty")
	refuse(c.HTTPTenantTokensFile != "" && c.HTTPToken.Empty(), "http_tenant_tokens_file",
		"without http_token every request sees all tenants; set that too, or leave this empty")
	host, port := splitListen(c.NATSListen)
	refuse(port != "" && c.given("nats_port"), "nats_port", "nats_listen has a port already; remove one")
	refuse(c.Embedded() && !IsLoopback(host) && c.NATSToken.Empty(), "nats_listen",
		"every machine that reaches this address could schedule timers and read events: set nats_token, which clients then need, or an address such as 127.0.0.1")
	refuse(c.NATSDomain != "" && (c.Broker != NATS || !servers), "nats_domain", "the domain is"+ofNATS)
	return errs
}

// ports are those that servers listen on by default.
var ports = map[Broker]string{NATS: "4222", Kafka: "9092", RabbitMQ: "5672"}

// allOf reports whether all of the URLs have one of the schemes. Kafka's may have
// none.
func allOf(urls Secret, schemes []string) bool {
	for part := range strings.SplitSeq(urls.Reveal(), ",") {
		scheme, _, found := strings.Cut(strings.TrimSpace(part), "://")
		if found && !slices.Contains(schemes, scheme) || !found && !slices.Contains(schemes, "kafka") {
			return false
		}
	}
	return true
}
