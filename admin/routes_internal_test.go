package admin

import "testing"

// TestRouteWithoutARuleIsNone: it can't be added.
func TestRouteWithoutARuleIsNone(t *testing.T) {
	t.Parallel()
	for pattern, rule := range map[string]rule{"GET /a": 0, "GET /b/{tenant}": filtered, "GET /e/{tenant}": anyToken, "GET /c": tenantToken, "GET /d": 99} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s with the rule %d was added", pattern, rule)
				}
			}()
			newRoutes().handle(pattern, rule, nil)
		}()
	}
}
