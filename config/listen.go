package config

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

var hostPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?$`)

// listen is a value for an address to listen on: a host, or a host with a port.
func listen(field *string) value {
	return text(field, "a host, or host:port with a port from 0 to 65535", ", such as 127.0.0.1:4222 or 0.0.0.0", func(s string) bool {
		host, port := splitListen(s)
		return (isHost(host) || host == "" && port != "") && (port == "" && !strings.HasSuffix(s, ":") || isPort(port, 0))
	})
}

func isHost(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil || hostPattern.MatchString(s)
}

// defaultHTTPAddr is the default address of HTTP.
const defaultHTTPAddr = "127.0.0.1:8080"

// listenPort is a value for an address to listen on with its port. If it is set to "", there
// is no address.
func listenPort(field *string) value {
	v := text(field, "host:port with a port from 0 to 65535", ", such as 127.0.0.1:8080 or :8080", func(s string) bool {
		host, port := splitListen(s)
		return s == "" || isPort(port, 0) && (host == "" || isHost(host))
	})
	v.empty = true
	return v
}

// isOrigin reports whether a text is a scheme and a host, or empty.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return text == "" || err == nil && isHTTP(text) && text == u.Scheme+"://"+u.Host
}

// parsePrefixes reads addresses, or networks such as 10.0.0.0/8.
func parsePrefixes(text string) (all []netip.Prefix, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if address, err := netip.ParseAddr(part); err == nil {
			all = append(all, netip.PrefixFrom(address, address.BitLen()))
		} else if network, err := netip.ParsePrefix(part); err == nil {
			all = append(all, network)
		} else if text != "" {
			return nil, false
		}
	}
	return all, true
}

func formatPrefixes(all []netip.Prefix) string {
	texts := make([]string, len(all))
	for i, p := range all {
		texts[i] = p.String()
	}
	return strings.Join(texts, ",")
}

// HTTPAddress returns the address of HTTP, or "" if it is not served, and whether the user
// chose it.
func (c Config) HTTPAddress() (addr string, chosen bool) { return c.HTTPAddr, c.given("http_addr") }

// LocalURL returns the URL of the service for programs on this machine, or "" if it does not
// serve them.
func (c Config) LocalURL() string {
	host, port, err := net.SplitHostPort(c.HTTPAddr)
	if err != nil {
		return ""
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	scheme := "http://"
	if c.HTTPTLSCert != "" {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, port) + c.HTTPPrefix
}

// TokenInClear reports whether other machines reach HTTP without TLS, as far as the settings say.
func (c Config) TokenInClear() bool {
	host, _, err := net.SplitHostPort(c.HTTPAddr)
	return err == nil && !IsLoopback(host) && c.HTTPTLSCert == "" && len(c.HTTPTrustedProxies) == 0
}

// Socket returns the unix socket of HTTP, or "" if there is none.
func (c Config) Socket() string {
	if c.HTTPSocket == "" && c.DBURL.Empty() {
		return c.DBPath + ".sock"
	}
	return c.HTTPSocket
}

// splitListen returns the host and the port of an address to listen on. The port is "" if
// there is none.
func splitListen(s string) (host, port string) {
	if host, port, err := net.SplitHostPort(s); err == nil {
		return host, port
	}
	return strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), ""
}

// isPort reports whether a text is a port number of at least least.
func isPort(text string, least uint64) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n >= least
}

// IsLoopback reports whether only this machine reaches a host.
func IsLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// NATSAddress returns the address of the embedded server, and whether the user chose the
// port.
func (c Config) NATSAddress() (host string, port int, chosen bool) {
	host, text := splitListen(c.NATSListen)
	if text == "" {
		return host, c.NATSPort, c.given("nats_port") || c.given("nats_listen")
	}
	port, _ = strconv.Atoi(text) // it was checked before
	return host, port, true
}

// From returns where the value of a setting came from. An explicit value counts even if it
// equals the default.
func (c Config) From(key string) Source { return c.origins[key].source }

// Given returns how many settings were given a value.
func (c Config) Given() int { return len(c.origins) }

func (c Config) given(key string) bool { return c.From(key) != FromDefault }
