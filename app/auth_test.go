package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/golang-jwt/jwt/v5"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

const secret = "0123456789abcdef0123456789abcdef"

// devOn is dev on a directory, and on ports that are free.
func devOn(dir string) app.Dev {
	config := app.Defaults()
	config.Instance, config.Listen, config.Admin = "dev", "127.0.0.1:0", ""
	return app.Dev{Config: config, DataDir: dir, KafkaListen: "127.0.0.1:0", Partitions: 1}
}

// authenticate runs the whole pipeline behind authentication and returns where.
func authenticate(t *testing.T) (host string) {
	t.Helper()
	host, _ = guardedAs(t, nil)
	return host
}

// guardedAs is authenticate with other settings; dir is where its data is.
func guardedAs(t *testing.T, change func(*app.Dev)) (host, dir string) {
	t.Helper()
	at, dir := guardedAt(t, change)
	return at.HTTP, dir
}

// guardedAt is guardedAs with all addresses.
func guardedAt(t *testing.T, change func(*app.Dev)) (at app.DevAddresses, dir string) {
	t.Helper()
	dir = t.TempDir() // before the clean-up that stops what writes into it
	dev := devOn(dir)
	dev.Auth.Secret, dev.Partitions = secret, 2
	if change != nil {
		change(&dev)
	}
	ctx, stop := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- app.RunDev(ctx, dev,
			slog.New(slog.DiscardHandler), func(is app.DevAddresses) { at = is; close(ready) })
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-done:
		done <- err
		t.Fatal(err)
	}
	return at, dir
}

func token(t *testing.T, life time.Duration, who, id, scope string) string {
	t.Helper()
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{who: id, "scope": scope, "exp": time.Now().Add(life).Unix()}).SignedString([]byte(secret))
	must.Do(t, err)
	return text
}

func TestNobodySpeaksForAnotherAtAnyEndpoint(t *testing.T) {
	t.Parallel()
	host := authenticate(t)
	own, gateway := token(t, time.Hour, "sub", "42", "presence:beat presence:read"), token(t, time.Hour, "gateway_id", "gw-1", "presence:beat")
	admin := token(t, time.Hour, "sub", "1", "presence:admin")
	beat := func(user string) string {
		return `{"beats":[{"user_id":"42","device_id":1},{"user_id":"` + user + `","device_id":1}]}`
	}
	alive := fmt.Sprintf(`{"gateway_id":"gw-1","gateway_epoch":"%d","beats":[]}`, time.Now().UnixMilli())
	for _, c := range []struct {
		name, token, request, body string
		status                     int
		says                       string
	}{
		{"no token", "", "POST /presence/heartbeats", beat("42"), 401, "no_token"},
		{"expired", token(t, -time.Hour, "sub", "42", "presence:beat"), "POST /presence/heartbeats", beat("42"), 401, "invalid_token"},
		{"wrong scope", token(t, time.Hour, "sub", "42", "presence:read"), "POST /presence/heartbeats", beat("42"), 403, "insufficient_scope"},
		{"own beat", own, "POST /presence/heartbeats", beat("42"), 202, ""},
		{"another's beat in the same body", own, "POST /presence/heartbeats", beat("43"), 403, "beats[1].user_id"},
		{"a user as a gateway", own, "POST /presence/heartbeats", alive, 403, "gateway_id"},
		{"a gateway for anybody", gateway, "POST /presence/heartbeats", beat("43"), 202, ""},
		{"a gateway under its name", gateway, "POST /presence/heartbeats", alive, 202, ""},
		{"a gateway under another's name", gateway, "POST /presence/heartbeats", strings.Replace(alive, "gw-1", "gw-2", 1), 403, "gateway_id"},
		{"hiding oneself", own, "PUT /presence/42/visibility", `{"visibility":"nobody"}`, 200, ""},
		{"hiding another", own, "PUT /presence/43/visibility", `{"visibility":"nobody"}`, 403, "user_id"},
		{"a gateway hides", gateway, "PUT /presence/43/visibility", `{"visibility":"nobody"}`, 403, "user_id"},
		{"an administrator hides", admin, "PUT /presence/43/visibility", `{"visibility":"nobody"}`, 200, ""},
		{"one's own audience", own, "PUT /presence/42/audience", `{"base":"nobody","last_seen":"coarse"}`, 200, ""},
		{"another's audience", own, "PUT /presence/43/audience", `{"last_seen":"exact"}`, 403, "user_id"},
		{"an audience by a gateway", gateway, "PUT /presence/43/audience", `{"last_seen":"exact"}`, 403, "user_id"},
		{"an audience by an administrator", admin, "PUT /presence/users/43/audience", `{"last_seen":"never"}`, 200, ""},
		{"one's own list", own, "POST /presence/42/audience/deny", `{"add":["7"],"remove":[8]}`, 200, ""},
		{"another's list", own, "POST /presence/43/audience/deny", `{"add":["7"]}`, 403, "user_id"},
		{"a list by a gateway", gateway, "POST /presence/43/audience/deny", `{"add":["7"]}`, 403, "user_id"},
		{"a list by an administrator", admin, "POST /presence/users/43/audience/deny", `{"remove":["7"]}`, 200, ""},
		{"setting oneself away", own, "PUT /presence/42/override", `{"state":"away"}`, 200, ""},
		{"setting another away", own, "PUT /presence/43/override", `{"state":"away"}`, 403, "user_id"},
		{"ending another's override", own, "DELETE /presence/43/override", "", 403, "user_id"},
		{"a gateway sets away", gateway, "PUT /presence/42/override", `{"state":"away"}`, 403, "user_id"},
		{"hiding oneself by the other path", own, "PUT /presence/users/42/visibility", `{"visibility":"everyone"}`, 200, ""},
		{"hiding another by the other path", own, "PUT /presence/users/43/visibility", `{"visibility":"nobody"}`, 403, "user_id"},
		{"a user called as an endpoint", own, "GET /presence/users/batch", "", 400, "invalid_user_id"},
		{"history by the other path without a token", "", "GET /presence/users/43/history", "", 401, "no_token"},
		{"one's own denied viewers", own, "GET /presence/42/audience/deny", "", 200, `"deny":[`},
		{"another's denied viewers", own, "GET /presence/43/audience/deny", "", 200, `"deny":null`},
		{"reading", own, "GET /presence/batch?user_ids=43", "", 200, ""},
		{"reading without the scope", gateway, "GET /presence/batch?user_ids=43", "", 403, "insufficient_scope"},
		{"history without a token", "", "GET /presence/43/history", "", 401, "no_token"},
		{"the stream without a token", "", "GET /presence/stream?user_ids=1", "", 401, "no_token"},
		{"another's socket", own, "GET /presence/connect?user_id=43&device_id=1", "", 403, "user_id"},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+host+path, strings.NewReader(c.body))
		must.Do(t, err)
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		if c.body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		answer := must.Get(http.DefaultClient.Do(r))(t)
		var said json.RawMessage
		_ = json.NewDecoder(answer.Body).Decode(&said)
		_ = answer.Body.Close()
		if answer.StatusCode != c.status || !strings.Contains(string(said), c.says) {
			t.Errorf("%s: %d %s, want %d %s", c.name, answer.StatusCode, said, c.status, c.says)
		}
	}
}

func TestASocketIsOfTheTokensUserAndEndsWithIt(t *testing.T) {
	t.Parallel()
	host := authenticate(t)
	for path, scope := range map[string]string{"connect?device_id=7": "presence:beat", "stream?": "presence:read"} {
		const life = 2 * time.Second // exp has whole seconds
		url := fmt.Sprintf("ws://%s/presence/%s&access_token=%s", host, path, token(t, life, "sub", "42", scope))
		conn, answer, err := websocket.Dial(t.Context(), url, nil)
		if err != nil {
			t.Fatal(path, err)
		}
		_ = answer.Body
		must.Do(t, conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":"subscribe","user_ids":["9"]}`)))
		watched := false
		for {
			_, message, err := conn.Read(t.Context())
			if err != nil {
				if websocket.CloseStatus(err) != 4401 {
					t.Errorf("%s ends with %v", path, err)
				}
				break
			}
			watched = watched || strings.Contains(string(message), `"snapshot"`)
		}
		if want := scope == "presence:read"; watched != want {
			t.Errorf("%s: a snapshot came: %t", path, watched)
		}
	}
}
