package main

import (
	"strings"
	"testing"
)

// splitWords splits a command line; libpq's keywords are one word.
func splitWords(line string) []string {
	words := strings.Fields(strings.ReplaceAll(line, "host=db password", "host=db\x00password"))
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "\x00", " ")
	}
	return words
}

// Not parallel, as parse sets the environment.
func TestSecretsOnTheCommandLineAreRefusedAndURLsWithThemOffTheLoopback(t *testing.T) {
	const hush = "a-secret-that-is-long-enough-for-the-test"
	for words, named := range map[string]string{
		"ingest --auth-secret " + hush:                                                "--auth-secret",
		"dev --auth-secret=" + hush + " --listen localhost:8080":                      "--auth-secret",
		"ingest --auth-secret " + hush + " --listen 0.0.0.0:8080":                     "--auth-secret",
		"ingest --auth-secret " + hush + " --listen :8080":                            "--auth-secret",
		"dev --auth-secret=" + hush + " --kafka-listen 0.0.0.0:9092":                  "--auth-secret",
		"detector --kafka-password " + hush + " --admin 10.0.0.1:9090 --admin-expose": "--kafka-password",
		"lastseen --postgres postgres://u:" + hush + "@db/x --admin 0.0.0.0:9090":     "--postgres",
		"lastseen --postgres postgres://u@db/x --admin 0.0.0.0:9090":                  "",
		"api --redis redis://u:" + hush + "@r:6379 --listen 0.0.0.0:8080":             "--redis",
		"channel webhook --url https://h --secret " + hush + " --admin 0.0.0.0:9090":  "--secret",
		"ingest --auth-secret-file /run/secret --listen 0.0.0.0:8080":                 "",
		"token 1 --auth-secret " + hush:                                               "--auth-secret",
		// Nobody can connect to these, and they are in the process list all the same.
		"channel webhook --url https://h.example --secret " + hush:                          "--secret",
		"channel webhook --url http://127.0.0.1:9 --secret " + hush:                         "--secret",
		"channel webhook --url http://[::1]:9 --secret " + hush + " --kafka-brokers k:9092": "--secret",
		"channel webhook --url http://u:" + hush + "@h.example/x":                           "--url",
		"channel webhook --url http://" + hush + "@h.example/x":                             "--url",
		"channel webhook --url https://h.example/x?Token=" + hush:                           "--url",
		"channel webhook --url https://h.example/x?tokens=" + hush:                          "",
		"lastseen --postgres postgres://u:" + hush + "@db/x":                                "--postgres",
		"lastseen --postgres postgres://u:" + hush + "@localhost/x":                         "",
		"lastseen --postgres host=db password=" + hush:                                      "--postgres",
		"lastseen --postgres postgres://u:" + hush + "@127.0.0.1/x?host=db":                 "--postgres",
		"lastseen --postgres postgres://u:" + hush + "@/x?host=db":                          "--postgres",
		"lastseen --postgres postgres://u:" + hush + "@/x?host=/run/postgresql":             "",
		"lastseen --postgres postgres://u:" + hush + "@localhost,db/x":                      "--postgres",
		"channel webhook --url https://h.example/x?X-Auth-Token=" + hush:                    "--url",
		"channel webhook --url https://h.example/x?apiToken=" + hush:                        "--url",
		"get 1 --url https://api.example --token " + hush:                                   "--token",
		"get 1 --token " + hush: "--token",
		"detector --kafka-brokers 127.0.0.1:1,k:9092 --kafka-user u --kafka-password " + hush: "--kafka-password",
		"topics apply --schema-registry https://u:" + hush + "@registry.example":              "--schema-registry",
		"api --redis rediss://u:" + hush + "@r.example:6379":                                  "--redis",
		"ingest --auth-secret " + hush + " --auth-jwks ./file --redis r.example:6379":         "--auth-secret",
	} {
		parsed, err := parse(t, splitWords(words), map[string]string{"STILLHERE_REDIS_PASSWORD": hush})
		if err != nil {
			t.Errorf("%s: %v", words, err)
			continue
		}
		err = refuseExposed(parsed)
		switch {
		case named == "" && err != nil:
			t.Errorf("%s is refused: %v", words, err)
		case named != "" && (err == nil || !strings.HasPrefix(err.Error(), named+":") || strings.Contains(err.Error(), hush)):
			t.Errorf("%s: got %v, want a refusal of %s", words, err, named)
		}
	}
}
