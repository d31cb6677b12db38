package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/event-service-agent/timer-service/timer"
)

// MinToken is the fewest characters of a token that can't be guessed. A tenant's token must
// have that many, and so must http_token where other machines reach it.
const MinToken = 16

// LoadTenantTokens returns the tokens of a YAML file, where each tenant has one token or a
// list. The error joins all mistakes. Each is a [*Mistake], unless the file cannot be read.
// The error never contains a token.
func LoadTenantTokens(file string) (map[timer.TenantID][]string, error) {
	return loadYAML(yamlFile{what: "file of tenant tokens", name: file}, "lines of tenant: token", (*yamlFile).tokens)
}

func (f *yamlFile) tokens(entries []entry) map[timer.TenantID][]string {
	tokens, owners := make(map[timer.TenantID][]string, len(entries)), make(map[string]string)
	for _, e := range entries {
		tenant := timer.TenantID(e.name)
		if tenant.Validate() != nil {
			f.refuse(e, "", "is not a tenant id: 1 to 64 characters of A-Z a-z 0-9 _ -, beginning with a letter or a digit")
			continue
		}
		values := []*yaml.Node{e.value}
		if e.value.Kind == yaml.SequenceNode {
			values = e.value.Content
		}
		for _, value := range values {
			token, _ := scalar(value)
			if len(token) < MinToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
				f.refuse(e, "", fmt.Sprintf("must be a token or a list of them, each of %d or more visible ASCII characters; openssl rand -hex 16 makes one", MinToken))
				break
			}
			if owner, taken := owners[token]; taken && owner != e.name {
				f.refuse(e, "", "has a token of "+owner+"; make another one")
				break
			}
			owners[token] = e.name
			tokens[tenant] = append(tokens[tenant], token)
		}
	}
	return tokens
}
