//go:build unix

package process_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/test/testkit"
)

// reloadWorld is a process of ingest with a configuration as Kubernetes mounts it: files are
// symlinks through a directory that is swapped.
type reloadWorld struct {
	*testkit.Dev
	dir, config, secret string // paths
	swaps               int
}

func newReloadWorld(t *testing.T) *reloadWorld {
	path := testkit.Binary(t, "stillhere")
	cluster := kafkatest.Start(t, identity.Users{}, testkit.DevPartitions)
	w := &reloadWorld{Dev: testkit.NewRole(t), dir: t.TempDir()}
	w.config, w.secret = filepath.Join(w.dir, "stillhere.yaml"), filepath.Join(w.dir, "secret")
	w.mount("limit-requests: 1000", secretOf("a"))
	must.Do(t, os.Symlink("data/stillhere.yaml", w.config))
	must.Do(t, os.Symlink("data/secret", w.secret))
	w.Run(path, "ingest", "ingest", nil, "--config", w.config, "--kafka-brokers", cluster.Brokers[0], "--auth-secret-file", w.secret)
	w.says("it is ready", `"msg":"ready"`)
	return w
}

// mount replaces the contents of both files at once.
func (w *reloadWorld) mount(config, secret string) {
	w.Helper()
	w.swaps++
	name := fmt.Sprint("data-", w.swaps)
	must.Do(w.T, os.Mkdir(filepath.Join(w.dir, name), 0o700))
	for file, text := range map[string]string{"stillhere.yaml": config, "secret": secret} {
		must.Do(w.T, os.WriteFile(filepath.Join(w.dir, name, file), []byte(text), 0o600))
	}
	must.Do(w.T, os.Symlink(name, filepath.Join(w.dir, "new")))
	must.Do(w.T, os.Rename(filepath.Join(w.dir, "new"), filepath.Join(w.dir, "data")))
}

func secretOf(letter string) string { return strings.Repeat(letter, 32) }

// says waits until a line of the log has all these words.
func (w *reloadWorld) says(what string, words ...string) {
	w.Helper()
	testkit.Until(w.T, what, 30*time.Second, func() bool {
		for _, line := range w.Err.Lines() {
			has := 0
			for _, word := range words {
				if strings.Contains(line, word) {
					has++
				}
			}
			if has == len(words) {
				return true
			}
		}
		return false
	})
}

// token is one of user 7 that a secret signs.
func (w *reloadWorld) token(secret string) string {
	w.Helper()
	c := auth.Defaults()
	c.Secret = keys.Secret{Value: secret}
	token, err := auth.Issue(c, auth.Caller{User: 7, Scopes: []string{auth.Beat}, Until: time.Now().Add(time.Hour)}, time.Now())
	must.Do(w.T, err)
	return token
}

// beat sends a heartbeat with a token that a secret signs, and returns the status.
func (w *reloadWorld) beat(secret string) int {
	w.Helper()
	body, _ := json.Marshal(map[string]any{"beats": []testkit.Beat{{User: 7, Device: 1, Kind: "mobile"}}})
	request, err := http.NewRequestWithContext(w.Context(), http.MethodPost, "http://"+w.Listen+"/presence/heartbeats", bytes.NewReader(body))
	must.Do(w.T, err)
	request.Header.Set("Authorization", "Bearer "+w.token(secret))
	answer := must.Get(w.Client.Do(request))(w.T)
	answer.Body.Close()
	return answer.StatusCode
}

// hello is the number of subscriptions that the first message of a socket allows.
func (w *reloadWorld) hello(secret string) int {
	w.Helper()
	conn, _, err := websocket.Dial(w.Context(), "ws://"+w.Listen+"/presence/connect?user_id=7&device_id=1&access_token="+w.token(secret), nil)
	must.Do(w.T, err)
	defer conn.CloseNow()
	_, text, err := conn.Read(w.Context())
	must.Do(w.T, err)
	var hello struct {
		Most int `json:"max_subscriptions"`
	}
	must.Do(w.T, json.Unmarshal(text, &hello))
	return hello.Most
}

func (w *reloadWorld) is(what string, got, want any) {
	w.Helper()
	if got != want {
		w.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func TestAProcessTakesOverLogLevelLimitsAndSecretsWithoutARestart(t *testing.T) {
	t.Parallel()
	w := newReloadWorld(t)
	w.is("a beat", w.beat(secretOf("a")), http.StatusAccepted)
	w.is("generation", w.Metric("stillhere_config_generation"), 1.0)

	// A swap of the files, without a signal.
	w.mount("limit-requests: 1000\nmax-subscriptions: 700", secretOf("b"))
	w.says("the file is reloaded", "the configuration is reloaded", `"trigger":"file"`, `"changed":["max-subscriptions"]`)
	w.is("a beat with the old secret", w.beat(secretOf("a")), http.StatusUnauthorized)
	w.is("a beat with the new secret", w.beat(secretOf("b")), http.StatusAccepted)
	w.is("the hello", w.hello(secretOf("b")), 700)
	w.is("generation", w.Metric("stillhere_config_generation"), 2.0)

	// A signal. The policy and the addresses stay.
	w.mount("limit-requests: 1\nredis: elsewhere:6379\npolicy: online_ttl=40s", secretOf("b"))
	w.Signal(syscall.SIGHUP)
	w.says("what changed", "the configuration is reloaded", `"trigger":"signal"`, "limit-requests", "max-subscriptions")
	w.says("what needs a restart", "need a restart", `"settings":["redis"]`)
	w.says("how the policy changes", "another policy", "stillhere policy set online_ttl=40s")
	w.is("settings that wait", w.Metric("stillhere_config_settings_waiting_for_restart"), 1.0)
	refused := 0
	for range 20 {
		if w.beat(secretOf("b")) == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused < 5 {
		t.Errorf("%d of 20 requests at once were refused by a limit of 1 per second", refused)
	}

	lines := len(w.Err.Lines())
	w.mount("log-level: error", secretOf("b"))
	testkit.Until(t, "the level is error", 30*time.Second, func() bool { return w.Metric("stillhere_config_generation") == 4 })
	w.is("lines below the level", len(w.Err.Lines()), lines)
	w.mount("log-level: info", secretOf("b"))
	w.says("the level is info", "the configuration is reloaded", `"changed":["log-level"]`)

	// What cannot be used changes nothing, and the fault has the name of the setting.
	for n, bad := range []struct{ config, secret, names string }{
		{"limit-requests: -1\nmax-subscriptions: 900", secretOf("b"), "limit_requests"},
		{"limit-requests: 1000", "short", "auth_secret"},
		{"limit-request: 1000", secretOf("b"), `no setting \"limit-request\"`},
		{"log-level: loud", secretOf("b"), "log-level"},
	} {
		w.mount(bad.config, bad.secret)
		w.Signal(syscall.SIGHUP)
		w.says("failure "+bad.names, "the configuration is not reloaded", bad.names)
		w.is("the last reload", w.Metric("stillhere_config_last_reload_successful"), 0.0)
		w.is(fmt.Sprint("the hello after fault ", n), w.hello(secretOf("b")), 500)
	}
	w.mount("limit-requests: 1000", secretOf("b"))
	testkit.Until(t, "the file is good again", 30*time.Second, func() bool { return w.Metric("stillhere_config_last_reload_successful") == 1 })
	w.is("a beat in the end", w.beat(secretOf("b")), http.StatusAccepted)
	w.is("settings that wait in the end", w.Metric("stillhere_config_settings_waiting_for_restart"), 0.0)
	if !w.Running() {
		t.Error("the process has ended")
	}
	w.Stop()
}
