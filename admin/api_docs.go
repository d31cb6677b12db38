package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/swaggest/swgui/v5emb"

	"github.com/event-service-agent/timer-service/envelope/schema"
)

// describe adds the machine-readable descriptions of the API and the messages.
func (a *api) describe(on *routes) {
	openAPI := a.openAPI()
	on.handle("GET /openapi.json", anyToken, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, openAPI) })
	on.handle("GET /asyncapi.json", anyToken, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, schema.AsyncAPI()) })
	on.handle("GET /schemas/{file}", anyToken, func(w http.ResponseWriter, r *http.Request) {
		text := schema.Of(strings.TrimSuffix(r.PathValue("file"), ".json"))
		if text == nil {
			writeProblem(w, http.StatusNotFound, "there is no such schema: there are "+strings.Join(schema.Names(), ", "))
			return
		}
		writeJSON(w, text)
	})
}

// showDocs adds a page on which people try out the API. It loads everything from this server,
// and Swagger UI has images in its styles.
func showDocs(on *routes, prefix string) {
	on.handle("GET /docs", anyToken, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, prefix+"/docs/", http.StatusTemporaryRedirect)
	})
	on.handle("GET /docs/{$}", anyToken, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy+"; img-src 'self' data:")
		http.ServeFileFS(w, r, web, "web/docs.html")
	})
	on.handle("GET /docs/", anyToken, v5emb.New("", "", "/docs/").ServeHTTP)
}

// openAPI returns the OpenAPI document, indented.
func (a *api) openAPI() []byte {
	text, err := json.MarshalIndent(a.huma.OpenAPI(), "", "  ")
	if err != nil {
		panic(fmt.Sprintf("describe the API: %v", err)) // a mistake in one of our types
	}
	return append(text, '\n')
}

func writeJSON(w http.ResponseWriter, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}
