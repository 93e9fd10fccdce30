package main

import (
	"regexp"
	"strings"
	"testing"
)

func TestTheHelpOfARoleHasWhatItNeedsFirstAndNothingOfOthers(t *testing.T) {
	flag := regexp.MustCompile(`(?m)^ +(?:-., )?--(?:\[no-\])?([a-z-]+)`)
	listed := map[string]bool{}
	all := map[string]bool{}
	for role, c := range map[string]struct{ begins, lacks string }{
		"ingest":   {"instance kafka-brokers redis postgres listen auth-secret-file auth-jwks frame-keys", "policy followers audit-retention"},
		"detector": {"instance kafka-brokers frame-keys admin", "redis postgres listen auth-jwks followers audit-retention"},
		"lastseen": {"instance kafka-brokers redis postgres", "listen auth-jwks policy followers"},
		"fanout":   {"instance kafka-brokers redis postgres", "listen auth-jwks policy audit-retention"},
		"api":      {"instance kafka-brokers redis postgres listen auth-secret-file auth-jwks", "policy followers audit-retention"},
		"all":      {"instance kafka-brokers redis postgres listen auth-secret-file auth-jwks frame-keys", ""},
	} {
		code, out, errs := stillhere(t, "", role, "--help")
		if code != 0 {
			t.Fatal(errs)
		}
		_, needed, found := strings.Cut(out, "\nNeeded:\n")
		var names []string
		for _, m := range flag.FindAllStringSubmatch(needed, -1) {
			names = append(names, m[1])
			if role == "all" {
				all[m[1]] = true
			} else {
				listed[m[1]] = true
			}
		}
		text := " " + strings.Join(names, " ") + " "
		begins := strings.TrimSuffix(c.begins, " admin")
		if !found || !strings.HasPrefix(text, " "+begins+" ") {
			t.Errorf("%s begins with %.200s, want %s", role, text, begins)
		}
		for _, name := range strings.Fields(c.lacks) {
			if strings.Contains(text, " "+name+" ") {
				t.Errorf("the help of %s has --%s", role, name)
			}
		}
	}
	for name := range all {
		if !listed[name] && !strings.HasSuffix(name, "-retention") && name != "graph-topic" {
			t.Errorf("--%s is in the help of no role but all", name)
		}
	}
}
