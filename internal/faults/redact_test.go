package faults_test

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/faults"
)

func TestAURLIsShownWithoutUserinfoQueryAndFragment(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"https://user:hush@issuer.example:8443/a%2Fb/keys?token=hush#hush": "https://issuer.example:8443/a%2Fb/keys",
		"postgres://user:hush@db/stillhere?password=hush":                  "postgres://db/stillhere",
		"https://issuer.example":                                           "https://issuer.example",
		"/etc/keys.json":                                                   "/etc/keys.json",
		"keys.json":                                                        "keys.json",
		"":                                                                 "",
		"https://user:hu sh@h/\x7f":                                        "(a URL that cannot be read)",
		"mailto:hush@example.com":                                          "mailto:(a URL that cannot be read)",
	} {
		if got := faults.URL(given); got != want || strings.Contains(got, "hush") {
			t.Errorf("%q is told as %q, want %q", given, got, want)
		}
	}
}

func TestAnErrorOfAnHTTPClientIsShownWithoutSecretsAndKeepsItsCause(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("asking https://h/?k=hush: %w", &url.Error{Op: "Get", URL: "https://u:hush@h/p?k=hush", Err: io.ErrUnexpectedEOF})
	got := faults.Error(err)
	if got.Error() != `Get "https://h/p": unexpected EOF` || !errors.Is(got, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", got)
	}
	if other := errors.New("other"); !errors.Is(faults.Error(other), other) {
		t.Error("an error without a URL is changed")
	}
}
