package app

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestTheRootOfDevLeadsToTheConsoleBelowAnyPrefix(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", toConsole)
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
	if location := answer.Header().Get("Location"); answer.Code != http.StatusTemporaryRedirect || location != "console/" {
		t.Errorf("answered %d and %q", answer.Code, location)
	}
}
