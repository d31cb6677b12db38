package admin

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"regexp"

	"github.com/swaggest/swgui"
	"github.com/swaggest/swgui/v5emb"
)

// docsPath is the path of the page that shows the API.
const docsPath = "/docs/"

// inline matches the scripts and styles in a page.
var inline = regexp.MustCompile(`(?s)<(script|style)>(.*?)</`)

// showDocs adds a page on which people try out the API. It loads everything from this server.
func showDocs(on *routes, prefix string) {
	ui := v5emb.NewWithConfig(swgui.Config{InternalBasePath: docsPath})("Timer service", prefix+"/openapi.json", prefix+docsPath)
	page := httptest.NewRecorder()
	ask, err := http.NewRequestWithContext(context.Background(), http.MethodGet, docsPath, nil)
	if err != nil {
		panic(err) // the path is a constant
	}
	ui.ServeHTTP(page, ask)
	policy := pagePolicy(page.Body.Bytes())
	show := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		_, _ = w.Write(page.Body.Bytes())
	}
	on.handle("GET /docs", anyToken, show)
	on.handle("GET "+docsPath+"{$}", anyToken, show)
	on.handle("GET "+docsPath, anyToken, ui.ServeHTTP)
}

// pagePolicy returns the policy of [safeHeaders], extended by the scripts and styles in the
// page, which it allows by their hashes, and by the images in its styles.
func pagePolicy(page []byte) string {
	allowed := map[string]string{"script": "", "style": ""}
	for _, found := range inline.FindAllSubmatch(page, -1) {
		sum := sha256.Sum256(found[2])
		allowed[string(found[1])] += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return policy + "; script-src 'self'" + allowed["script"] + "; style-src 'self'" + allowed["style"] + "; img-src 'self' data:"
}
