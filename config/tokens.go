package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/event-service-agent/timer-service/timer"
)

// MinToken is the fewest characters of a token that can't be guessed. A token of the file must
// have that many, and so must http_token where other machines reach it.
const MinToken = 16

// A Role is the set of rights of a token.
type Role string

// Roles.
const (
	Read    Role = "read"    // to see
	Operate Role = "operate" // to see and to change
	Metrics Role = "metrics" // for /metrics alone
)

// A Token is one of http_tenant_tokens_file.
type Token struct {
	Name   string         // of a person or a program, or the tenant
	Tenant timer.TenantID // the only one that it sees and changes; empty: all of them
	Role   Role
	Hash   [sha256.Size]byte // SHA-256 of its text
}

// LoadTokens returns the tokens of a YAML file. A tenant has one token or a list, and other
// users keys and values. The error joins all mistakes. Each is a [*Mistake], unless the file
// cannot be read. The error never contains a token.
func LoadTokens(file string) ([]Token, error) {
	return loadYAML(yamlFile{what: "file of tokens", name: file}, "lines of tenant: token", (*yamlFile).tokens)
}

// namePattern matches the name of a person or a program, which logs show.
var namePattern = regexp.MustCompile(`^[!-~]{1,64}$`)

func (f *yamlFile) tokens(entries []entry) (all []Token) {
	owners := make(map[[sha256.Size]byte]string)
	for _, e := range entries {
		one, given := Token{Name: e.name, Tenant: timer.TenantID(e.name), Role: Operate}, e.value
		if e.value.Kind == yaml.MappingNode {
			one, given = f.named(e)
		}
		if one.Tenant != "" && one.Tenant.Validate() != nil {
			f.refuse(e, "", "is not a tenant id: 1 to 64 characters of A-Z a-z 0-9 _ -, beginning with a letter or a digit")
			continue
		}
		values := []*yaml.Node{given}
		if given.Kind == yaml.SequenceNode {
			values = given.Content
		}
		for _, value := range values {
			var valid bool
			if one.Hash, valid = hashOf(value); !valid {
				f.refuse(e, "", fmt.Sprintf("must be a token or a list of them, each of %d or more visible ASCII characters, or sha256: and its hash; openssl rand -hex 16 makes one", MinToken))
				break
			}
			if owner, taken := owners[one.Hash]; taken && owner != e.name {
				f.refuse(e, "", "has a token of "+owner+"; make another one")
				break
			}
			owners[one.Hash] = e.name
			all = append(all, one)
		}
	}
	return all
}

// named reads the token of a person or a program, which reads unless it has another role.
func (f *yamlFile) named(e entry) (one Token, token *yaml.Node) {
	one, token = Token{Name: e.name, Role: Read}, new(yaml.Node)
	if !namePattern.MatchString(e.name) {
		f.refuse(e, "", "must be a name of 1 to 64 visible ASCII characters")
	}
	for _, field := range f.entries(e) {
		text, _ := scalar(field.value)
		switch {
		case field.name == "token":
			token = field.value
		case field.name == "tenant" && text != "":
			one.Tenant = timer.TenantID(text)
		case field.name == "role" && (text == string(Read) || text == string(Operate) || text == string(Metrics)):
			one.Role = Role(text)
		default:
			f.refuse(field, "", "must be token, tenant, or role with read, operate or metrics")
		}
	}
	if one.Role == Metrics && one.Tenant != "" {
		f.refuse(e, "", "metrics are of all tenants: leave tenant out")
	}
	return one, token
}

// hashOf returns the hash of a token, which the file may have in place of the token, and whether
// it can't be guessed.
func hashOf(value *yaml.Node) (hash [sha256.Size]byte, valid bool) {
	token, _ := scalar(value)
	if text, is := strings.CutPrefix(token, "sha256:"); is {
		n, err := hex.Decode(hash[:], []byte(text[:min(len(text), 2*len(hash))]))
		return hash, err == nil && 2*n == len(text) && n == len(hash)
	}
	return sha256.Sum256([]byte(token)), len(token) >= MinToken && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}
