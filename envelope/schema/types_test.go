package schema_test

import "testing"

// TestEveryFieldHasAType walks all schemas: generators of code guess the type of a field that has
// none, and make an object of it.
func TestEveryFieldHasAType(t *testing.T) {
	t.Parallel()
	for name, s := range schemas(t) {
		untyped(t, name, s)
	}
}

func untyped(t *testing.T, path string, schema object) {
	t.Helper()
	if items, ok := schema["items"].(object); ok {
		untyped(t, path+"[]", items)
	}
	fields, _ := schema["properties"].(object)
	for name, field := range fields {
		s := field.(object)
		if s["type"] == nil && s["const"] == nil && s["enum"] == nil {
			t.Errorf("%s.%s has no type", path, name)
		}
		untyped(t, path+"."+name, s)
	}
}
