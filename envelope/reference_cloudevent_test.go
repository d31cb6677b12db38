package envelope_test

import (
	"encoding/json"
	"maps"
	"mime"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/event-service-agent/timer-service/timer"
)

var (
	traceForm  = regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)
	stateForm  = regexp.MustCompile(`^[ -~]{0,512}$`)
	sourceForm = regexp.MustCompile(`^([A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$`)
	jsonForm   = regexp.MustCompile(`^[^/]+/([^/]*\+)?json$`)
)

// referenceCloudEvent turns a CloudEvent of ours into what an envelope would
// say, and returns its trace context. It returns false if it is to be refused.
func referenceCloudEvent(top map[string]any) (trace timer.Trace, ok bool) {
	_, both := top["tenantId"]
	source, _ := top["source"].(string)
	_, wrong := url.Parse(source)
	if top["specversion"] != "1.0" || both || !sourceForm.MatchString(source) || wrong != nil || top["data_base64"] != nil {
		return trace, false
	}
	if given := top["datacontenttype"]; given != nil {
		text, _ := given.(string)
		kind, _, err := mime.ParseMediaType(text)
		if err != nil || !jsonForm.MatchString(kind) {
			return trace, false
		}
	}
	given, _ := top["time"].(string)
	clock, _, ok := referenceClock(given)
	if !ok || clock.Year() < 2000 || clock.Year() > 2200 {
		return trace, false
	}
	parent, _ := top["traceparent"].(string)
	if parts := traceForm.FindStringSubmatch(parent); parts != nil && strings.Trim(parts[1], "0") != "" && strings.Trim(parts[2], "0") != "" {
		trace.Parent = parent
		if state, _ := top["tracestate"].(string); stateForm.MatchString(strings.Trim(state, " ")) {
			trace.State = strings.Trim(state, " ")
		}
	}

	event := maps.Clone(top)
	for name := range top {
		if !slices.Contains([]string{"id", "type"}, name) {
			delete(top, name)
		}
	}
	top["payload"] = event["data"]
	top["timestampMs"] = json.Number(strconv.FormatInt(clock.UnixMilli(), 10))
	for attribute, field := range map[string]string{"tenantid": "tenantId", "subject": "aggregateId", "correlationid": "correlationId", "causationid": "causationId"} {
		if event[attribute] != nil {
			top[field] = event[attribute]
		}
	}
	if data, _ := event["data"].(map[string]any); event["tenantid"] == nil {
		top["tenantId"] = data["tenantId"]
	}
	return trace, true
}
