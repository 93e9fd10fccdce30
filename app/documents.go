package app

import (
	"net/http"

	"github.com/stillhere/stillhere/schemas"
)

// withDocuments serves the descriptions of the API without authentication, and leaves other
// requests to endpoints.
func withDocuments(endpoints http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", endpoints)
	serve := func(document []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/yaml")
			_, _ = w.Write(document) // an error means that the client disconnected
		}
	}
	documents := http.NewServeMux()
	documents.HandleFunc("GET /openapi.yaml", serve(schemas.OpenAPI))
	documents.HandleFunc("GET /asyncapi.yaml", serve(schemas.AsyncAPI))
	handleNotFound(documents) // other methods
	for _, path := range []string{"/openapi.yaml", "/asyncapi.yaml"} {
		mux.Handle(path, documents)
	}
	return mux
}
