package main

import (
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// Not parallel, as parse sets the environment.
func TestAnEmptyPathInTheEnvironmentIsNone(t *testing.T) {
	chosen, err := parse(t, []string{"topics", "apply"}, map[string]string{"STILLHERE_KAFKA_TLS_CA": "", "STILLHERE_KAFKA_TLS_KEY": "key.pem"})
	must.Do(t, err)
	for _, flag := range chosen.Flags() {
		switch got := chosen.FlagValue(flag); {
		case flag.Name == "kafka-tls-ca" && got != "":
			t.Errorf("an empty path became %v", got)
		case flag.Name == "kafka-tls-key" && (got == "" || got == "key.pem"):
			t.Errorf("a path became %v, must be absolute", got)
		}
	}
}
