//go:build unix

package testkit

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/detector/liveness"
)

// PolicyFlags are the flags that set a policy.
func PolicyFlags(s liveness.Settings) []string {
	var words []string
	for _, setting := range s.Settings() {
		words = append(words, setting.Name+"="+setting.Value)
	}
	return []string{"--policy=" + strings.Join(words, ",")}
}

// Number is a whole number from the environment.
func Number(t *testing.T, name string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
