package admin

import "net"

// Rules returns the rules of all routes, and those operations that are described and
// have none.
func (s *Server) Rules() (rules map[string]string, without []string) {
	names := map[rule]string{public: "anybody", anyToken: "any", tenantToken: "tenant", filtered: "filtered", adminToken: "all", operatorToken: "operator", metricsToken: "metrics"}
	all := s.routes.rules
	for path, item := range s.api.huma.OpenAPI().Paths {
		for method, described := range map[string]bool{
			"GET": item.Get != nil, "PUT": item.Put != nil, "POST": item.Post != nil, "DELETE": item.Delete != nil, "PATCH": item.Patch != nil,
		} {
			if _, ok := all[method+" "+path]; described && !ok {
				without = append(without, method+" "+path)
			}
		}
	}
	rules = make(map[string]string, len(all))
	for route, rule := range all {
		rules[route] = names[rule]
	}
	return rules, without
}

// ListenOn has Run answer the connections of a listener, as those over TCP.
func (s *Server) ListenOn(l net.Listener) { s.sockets = append(s.sockets, s.bounded(l)) }
