//go:build unix

package attack_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// keyServer signs tokens and publishes its key, after 300 ms.
type keyServer struct {
	*testing.T
	server *httptest.Server
	asked  atomic.Int32

	mu  sync.Mutex
	kid string
	key *ecdsa.PrivateKey
}

// newKeyServer makes one that publishes at address, once it is started.
func newKeyServer(t *testing.T, address string) *keyServer {
	t.Helper()
	i := &keyServer{T: t}
	i.rotate("first")
	i.server = httptest.NewUnstartedServer(http.HandlerFunc(i.publish))
	i.server.Listener.Close()
	l := must.Get(net.Listen("tcp", address))(t)
	i.server.Listener = l
	i.server.Start()
	t.Cleanup(i.server.Close)
	return i
}

func (i *keyServer) rotate(kid string) {
	i.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(i)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.kid, i.key = kid, key
}

func (i *keyServer) publish(w http.ResponseWriter, r *http.Request) {
	i.asked.Add(1)
	select {
	case <-time.After(300 * time.Millisecond): // a server that is far away
	case <-r.Context().Done():
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	point, err := i.key.PublicKey.Bytes()
	if err != nil {
		i.Error(err)
		return
	}
	part := func(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
	_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{map[string]any{ // who asked may have gone
		"kty": "EC", "crv": "P-256", "kid": i.kid, "use": "sig", "alg": "ES256", "x": part(point[1:33]), "y": part(point[33:]),
	}}})
}

func (i *keyServer) token() string {
	i.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"sub": "1", "scope": "presence:read", "exp": time.Now().Add(time.Hour).Unix()})
	token.Header["kid"] = i.kid
	return must.Get(token.SignedString(i.key))(i)
}

// readsAs is the status of a read with a token.
func readsAs(h *testkit.Dev, token string) int {
	h.Helper()
	request := must.Get(http.NewRequest(http.MethodGet, "http://"+h.Listen+"/presence/1", nil))(h)
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := h.Client.Do(request)
	if err != nil {
		return 0
	}
	answer.Body.Close()
	return answer.StatusCode
}

func TestANewKeyWorksWithin12SecondsOfAServerThatTakes300Milliseconds(t *testing.T) {
	t.Parallel()
	i := newKeyServer(t, testkit.FreePort(t))
	h := testkit.NewDev(t, "--auth-jwks", i.server.URL+"/keys?secret=hush", "--limit-requests", "0")
	h.Up()
	old := i.token()
	testkit.Until(t, "a token is taken", 10*time.Second, func() bool { return readsAs(h, old) == http.StatusOK })
	i.rotate("second")
	begun := time.Now()
	testkit.Until(t, "a token of the new key is taken", 12*time.Second, func() bool { return readsAs(h, i.token()) == http.StatusOK })
	t.Logf("the new key worked after %s, %d fetches", time.Since(begun).Round(10*time.Millisecond), i.asked.Load())
	if status := readsAs(h, old); status != http.StatusUnauthorized {
		t.Errorf("a token of the old key: %d", status)
	}
	// Forged key ids do not make us ask all the time.
	before := i.asked.Load()
	for range 200 {
		readsAs(h, old)
	}
	if more := i.asked.Load() - before; more > 1 {
		t.Errorf("200 tokens of an unknown key led to %d fetches", more)
	}
}

func TestAServerOfKeysThatIsDownAtTheStartIsAskedAgain(t *testing.T) {
	t.Parallel()
	address := testkit.FreePort(t)
	h := testkit.NewDev(t, "--auth-jwks", "http://user:hush@"+address+"/keys?secret=hush")
	// Not up: it is not ready before it knows keys.
	h.Program = testkit.Start(t, testkit.Binary(t, "stillhere"), nil, append([]string{"dev", "--data-dir", h.Dir, "--listen", h.Listen, "--admin", h.Admin, "--kafka-listen", h.Broker}, h.Flags...)...)
	testkit.Until(t, "it says that keys cannot be fetched", 20*time.Second, func() bool { return strings.Contains(h.Err.String(), "cannot be fetched") })
	testkit.Until(t, "it serves", 30*time.Second, func() bool { return readsAs(h, "x.y.z") == http.StatusServiceUnavailable })
	i := newKeyServer(t, address)
	begun := time.Now()
	testkit.Until(t, "tokens are taken", 35*time.Second, func() bool { return readsAs(h, i.token()) == http.StatusOK })
	t.Logf("tokens were taken %s after the server came back", time.Since(begun).Round(10*time.Millisecond))
	if strings.Contains(h.Err.String(), "hush") {
		t.Errorf("the log has the URL's secrets:\n%s", h.Err.String())
	}
}
