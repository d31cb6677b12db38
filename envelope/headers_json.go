package envelope

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// EncodeHeaders encodes headers as a JSON object, sorted by name.
func EncodeHeaders(headers map[string]string) []byte {
	text, err := json.Marshal(headers, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // they are texts
	}
	return text
}

// DecodeHeaders decodes a JSON object of strings, such as that of
// [EncodeHeaders].
func DecodeHeaders(text string) (headers map[string]string, err error) {
	if err := json.Unmarshal([]byte(text), &headers); err != nil {
		return nil, fmt.Errorf("decode headers: %w", err)
	}
	return headers, nil
}
