package config

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Kubernetes gives each container variables for each Service of its namespace, such as
// TIMER_SERVICE_HOST and TIMER_PORT=tcp://10.0.0.1:4222 for a Service named timer, and
// TIMER_NATS_PORT for a Service named timer-nats.
var (
	kubernetesHost = regexp.MustCompile(`_(SERVICE_HOST|PORT_[0-9]+_(TCP|UDP|SCTP)_ADDR)$`)
	kubernetesPort = regexp.MustCompile(`_(SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)_PORT)$`)
	kubernetesURL  = regexp.MustCompile(`_PORT(_[0-9]+_(TCP|UDP|SCTP))?$`)
	kubernetesKind = regexp.MustCompile(`_PORT_[0-9]+_(TCP|UDP|SCTP)_PROTO$`)
)

// fromKubernetes reports whether a variable is about a Service. It also checks the value,
// because TIMER_PORT=4222 is a misspelled setting.
func fromKubernetes(name, value string) bool {
	_, err := netip.ParseAddr(value)
	kind, _, _ := strings.Cut(value, "://")
	isProtocol := slices.Contains([]string{"tcp", "udp", "sctp"}, kind)
	return kubernetesHost.MatchString(name) && err == nil ||
		kubernetesPort.MatchString(name) && isPort(value, 1) ||
		kubernetesURL.MatchString(name) && isProtocol && kind != value ||
		kubernetesKind.MatchString(name) && isProtocol && kind == value
}
