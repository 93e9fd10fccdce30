package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestAnUnknownPathIsAnsweredInJSON(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /presence/{user_id}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("PUT /presence/{user_id}/visibility", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /presence/heartbeats", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("DELETE /presence/{user_id}", func(http.ResponseWriter, *http.Request) {})
	handleNotFound(mux)
	for _, c := range []struct {
		method, path string
		status       int
		code, allow  string
	}{
		{http.MethodGet, "/presence/1", http.StatusOK, "", ""},
		{http.MethodHead, "/presence/1", http.StatusOK, "", ""},
		{http.MethodDelete, "/presence/1", http.StatusOK, "", ""},
		{http.MethodPost, "/presence/1", http.StatusMethodNotAllowed, "method_not_allowed", "GET, DELETE"},
		{http.MethodGet, "/presence/heartbeats", http.StatusMethodNotAllowed, "method_not_allowed", "POST"},
		{http.MethodDelete, "/presence/batch", http.StatusNotFound, "not_found", ""},
		{http.MethodGet, "/presence/1/visibility", http.StatusMethodNotAllowed, "method_not_allowed", "PUT"},
		{http.MethodTrace, "/presence/1", http.StatusMethodNotAllowed, "method_not_allowed", "GET, DELETE"},
		{http.MethodGet, "/", http.StatusNotFound, "not_found", ""},
		{http.MethodPost, "/presence/1/2/3", http.StatusNotFound, "not_found", ""},
	} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(c.method, c.path, nil))
		if answer.Code != c.status || answer.Header().Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, allowed %q", c.method, c.path, answer.Code, answer.Header().Get("Allow"))
		}
		if c.code == "" {
			continue
		}
		var said struct {
			Error struct{ Code, Message string }
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &said); err != nil || said.Error.Code != c.code || said.Error.Message == "" {
			t.Errorf("%s %s: %s (%v)", c.method, c.path, answer.Body, err)
		}
	}
}
