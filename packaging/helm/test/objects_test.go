package helm

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/event-service-agent/timer-service/config"
)

// kinds has the types of all that the chart makes.
var kinds = map[string]func() any{
	"apps/v1 StatefulSet":                     func() any { return new(apps.StatefulSet) },
	"apps/v1 Deployment":                      func() any { return new(apps.Deployment) },
	"v1 Service":                              func() any { return new(core.Service) },
	"v1 ConfigMap":                            func() any { return new(core.ConfigMap) },
	"policy/v1 PodDisruptionBudget":           func() any { return new(policy.PodDisruptionBudget) },
	"networking.k8s.io/v1 NetworkPolicy":      func() any { return new(networking.NetworkPolicy) },
	"monitoring.coreos.com/v1 ServiceMonitor": func() any { return new(monitoring.ServiceMonitor) },
	"monitoring.coreos.com/v1 PrometheusRule": func() any { return new(monitoring.PrometheusRule) },
}

// decoded returns the objects of an example by kind. A field that the type does not have,
// or that is there twice, fails the test.
func decoded(t *testing.T, name string, values map[string]any) map[string]any {
	t.Helper()
	all := make(map[string]any)
	for _, d := range documents(t, name, values) {
		object, is := kinds[d.APIVersion+" "+d.Kind]
		if !is {
			t.Fatalf("%s: %s %s is no known kind", name, d.APIVersion, d.Kind)
		}
		one := object()
		if err := yaml.UnmarshalStrict(d.text, one); err != nil {
			t.Errorf("%s: %s: %v", name, d.Kind, err)
		}
		all[d.Kind] = one
	}
	return all
}

// TestObjects decodes all objects, and looks at what must fit together.
func TestObjects(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for name, values := range allValues(t) {
		all := decoded(t, name, values)
		for kind, object := range all {
			seen[kind] = true
			meta := reflect.ValueOf(object).Elem().FieldByName("ObjectMeta")
			if got := meta.FieldByName("Name").String(); got != "shop-timer-service" || len(validation.IsDNS1035Label(got)) > 0 {
				t.Errorf("%s: %s is named %q", name, kind, got)
			}
		}
		labels := podTemplate(t, name, all).Labels
		selectors := map[string]map[string]string{"Service": all["Service"].(*core.Service).Spec.Selector}
		if set, is := all["StatefulSet"].(*apps.StatefulSet); is {
			selectors["StatefulSet"] = set.Spec.Selector.MatchLabels
		}
		if deployment, is := all["Deployment"].(*apps.Deployment); is {
			selectors["Deployment"] = deployment.Spec.Selector.MatchLabels
			selectors["PodDisruptionBudget"] = all["PodDisruptionBudget"].(*policy.PodDisruptionBudget).Spec.Selector.MatchLabels
		}
		if policy, is := all["NetworkPolicy"].(*networking.NetworkPolicy); is {
			selectors["NetworkPolicy"] = policy.Spec.PodSelector.MatchLabels
		}
		for kind, selector := range selectors {
			if len(selector) == 0 || !contains(labels, selector) {
				t.Errorf("%s: %s selects %v, pods have %v", name, kind, selector, labels)
			}
		}
		if monitor, is := all["ServiceMonitor"].(*monitoring.ServiceMonitor); is {
			service := all["Service"].(*core.Service)
			if !contains(service.Labels, monitor.Spec.Selector.MatchLabels) || service.Labels[monitor.Spec.JobLabel] != "timer-service" {
				t.Errorf("%s: the ServiceMonitor does not find the Service as the job of the alert rules", name)
			}
			if token := monitor.Spec.Endpoints[0].Authorization.Credentials; !slices.ContainsFunc(podOf(t, name, values).Containers[0].Env, func(e core.EnvVar) bool {
				return e.Name == "TIMER_HTTP_TOKEN" && *e.ValueFrom.SecretKeyRef == *token
			}) {
				t.Errorf("%s: the ServiceMonitor has another token than the service", name)
			}
		}
	}
	if len(seen) != len(kinds) {
		t.Errorf("the examples have %d kinds of %d", len(seen), len(kinds))
	}
}

// TestNetworkPolicyGuardsAnEmbeddedBroker unless it is switched off, since every pod of the cluster
// could otherwise reach its port.
func TestNetworkPolicyGuardsAnEmbeddedBroker(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		example, policy string
		is              bool
	}{
		{"sqlite-embedded", "", true},
		{"sqlite-embedded", "networkPolicy: {enabled: false}", false},
		{"postgres-nats", "", false},
		{"postgres-nats", "networkPolicy: {enabled: true}", true},
	} {
		values := allValues(t)[test.example]
		maps.Copy(values, parse(t, test.policy))
		if _, is := decoded(t, test.example, values)["NetworkPolicy"]; is != test.is {
			t.Errorf("%s with %q: there is a policy: %v", test.example, test.policy, is)
		}
	}
}

// TestPrometheusMayHaveATokenForMetrics in place of the one for everything.
func TestPrometheusMayHaveATokenForMetrics(t *testing.T) {
	t.Parallel()
	values := allValues(t)["postgres-full"]
	maps.Copy(values, parse(t, "serviceMonitor: {enabled: true, tokenSecret: {name: prometheus, key: metrics}}"))
	endpoint := decoded(t, "postgres-full", values)["ServiceMonitor"].(*monitoring.ServiceMonitor).Spec.Endpoints[0]
	if token := endpoint.Authorization.Credentials; token.Name != "prometheus" || token.Key != "metrics" {
		t.Errorf("it has the token %+v", token)
	}
}

// TestAlertRules compares the PrometheusRule with the alert rules of the documentation.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/alerts/rules.yml")
	must(t, err)
	var want monitoring.PrometheusRuleSpec
	must(t, yaml.UnmarshalStrict(text, &want))
	got := decoded(t, "postgres-full", allValues(t)["postgres-full"])["PrometheusRule"].(*monitoring.PrometheusRule).Spec
	if diff := cmp.Diff(want, got); diff != "" || len(want.Groups) == 0 {
		t.Errorf("alert rules (-docs +chart):\n%s", diff)
	}
}

// TestPods checks what each pod is allowed, how it is probed and stopped, and that the
// service takes the settings it is given.
func TestPods(t *testing.T) {
	t.Parallel()
	for name, values := range allValues(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkPod(t, name, values)
		})
	}
}

func checkPod(t *testing.T, name string, values map[string]any) {
	t.Helper()
	all := decoded(t, name, values)
	pod := podTemplate(t, name, all).Spec
	c := pod.Containers[0]

	// What the service makes of its variables.
	var environ []string
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil {
			value = secretValue(name, e.Name)
		}
		if e.Name == "TIMER_QUOTAS_FILE" {
			file := filepath.Join(t.TempDir(), "quotas.yaml")
			must(t, os.WriteFile(file, []byte(all["ConfigMap"].(*core.ConfigMap).Data[path.Base(value)]), 0o600))
			if _, err := config.LoadQuotas(file); err != nil {
				t.Error(err)
			}
		}
		environ = append(environ, e.Name+"="+value)
	}
	cfg, err := config.Load(nil, environ, "")
	must(t, err)
	mode, broker, _ := strings.Cut(name, "-")
	if cfg.DBURL.Empty() != (mode == "sqlite") || cfg.Embedded() != (broker == "embedded") || cfg.HTTPToken.Empty() {
		t.Errorf("the service has the settings %+v", cfg.Values())
	}
	for _, s := range config.Settings() {
		if i := slices.IndexFunc(c.Env, func(e core.EnvVar) bool { return e.Name == s.Env }); i >= 0 && s.Secret && c.Env[i].ValueFrom == nil {
			t.Errorf("%s is a secret in clear text", s.Env)
		}
	}

	// Probes ask where HTTP is answered.
	port := fmt.Sprintf(":%d", c.Ports[0].ContainerPort)
	probes := []*core.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe}
	for i, want := range []string{"/livez", "/livez", "/readyz"} {
		if get := probes[i].HTTPGet; get.Path != cfg.HTTPPrefix+want || get.Port.StrVal != c.Ports[0].Name || cfg.HTTPAddr != port {
			t.Errorf("a probe asks %+v, the service answers on %s", get, cfg.HTTPAddr)
		} else if over := get.Scheme == core.URISchemeHTTPS; over != (cfg.HTTPTLSCert != "") {
			t.Errorf("a probe asks by TLS: %v, and the service has the certificate %q", over, cfg.HTTPTLSCert)
		}
	}

	// A stop has time enough: the service takes drain_timeout and five seconds.
	stop := time.Duration(c.Lifecycle.PreStop.Sleep.Seconds)*time.Second + cfg.DrainTimeout + 5*time.Second
	if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; grace <= stop {
		t.Errorf("a stop takes %v at most, the pod is killed after %v", stop, grace)
	}

	// It may write only its volumes.
	if s := c.SecurityContext; !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("the container may do %+v", s)
	}
	if s := pod.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser != 65532 || *s.FSGroup != 65532 || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod may do %+v", s)
	}
	if *pod.EnableServiceLinks || *pod.AutomountServiceAccountToken {
		t.Error("the pod has variables of Services, or a token of the API server")
	}
	volumes := make(map[string]bool)
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	if set, is := all["StatefulSet"].(*apps.StatefulSet); is {
		volumes[set.Spec.VolumeClaimTemplates[0].Name] = true
	}
	mounted := make(map[string]bool)
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] || mounted[m.MountPath] {
			t.Errorf("%s at %s is no volume, or there is another one", m.Name, m.MountPath)
		}
		mounted[m.MountPath] = true
	}
	for _, file := range []string{cfg.BrokerTLSCA, cfg.BrokerTLSCert, cfg.BrokerTLSKey, cfg.NATSCredentials, cfg.NATSNKey, cfg.HTTPTenantTokensFile, cfg.HTTPTLSCert, cfg.HTTPTLSKey, cfg.QuotasFile} {
		if file != "" && !mounted[path.Dir(file)] {
			t.Errorf("%s is in no volume", file)
		}
	}
	if cfg.DBURL.Empty() && !mounted[path.Dir(path.Dir(cfg.DBPath))] { // the service makes the folder
		t.Errorf("the folder of %s is in no volume", cfg.DBPath)
	}
}

// secretValue is what a Secret of an example may have for a variable.
func secretValue(example, variable string) string {
	switch variable {
	case "TIMER_DB_URL":
		return "postgres://timers:secret@postgres:5432/timers?sslmode=require"
	case "TIMER_BROKER_URL":
		switch {
		case strings.HasSuffix(example, "kafka"):
			return "kafka+ssl://kafka:9093"
		case strings.HasSuffix(example, "rabbitmq"):
			return "amqps://rabbitmq:5671"
		}
		return "tls://nats:4222"
	}
	return "secret-of-16-and-more"
}

func podOf(t *testing.T, name string, values map[string]any) core.PodSpec {
	t.Helper()
	return podTemplate(t, name, decoded(t, name, values)).Spec
}

func podTemplate(t *testing.T, name string, all map[string]any) core.PodTemplateSpec {
	t.Helper()
	if set, is := all["StatefulSet"].(*apps.StatefulSet); is {
		return set.Spec.Template
	}
	deployment, is := all["Deployment"].(*apps.Deployment)
	if !is {
		t.Fatalf("%s has no pods", name)
	}
	return deployment.Spec.Template
}

func contains(all, some map[string]string) bool {
	for key, value := range some {
		if all[key] != value {
			return false
		}
	}
	return true
}
