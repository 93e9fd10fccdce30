package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

// reloading is a guard whose settings change.
type reloading struct {
	*testing.T
	guard  *auth.Guard
	config auth.Config
	http.Handler
}

func newReloading(t *testing.T, change func(*auth.Config)) *reloading {
	t.Helper()
	r := &reloading{T: t, config: auth.Defaults()}
	change(&r.config)
	r.guard = must.Get(auth.New(t.Context(), r.config, nil, slog.New(slog.DiscardHandler)))(t)
	r.Handler = r.guard.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), needOf,
		func(ctx context.Context, _ *auth.Caller) context.Context { return ctx })
	return r
}

func (r *reloading) reload(change func(*auth.Config)) error {
	next := r.config
	change(&next)
	commit, err := r.guard.Reload(next)
	if err == nil {
		commit()
		r.config = next
	}
	return err
}

// answers is the status of a request with a token.
func (r *reloading) answers(what, token string, want int) {
	r.Helper()
	if got := ask(r, "GET", "/presence/1", "Authorization", "Bearer "+token).StatusCode; got != want {
		r.Errorf("%s: %d, want %d", what, got, want)
	}
}

// ec is a key, and the set that has it.
func ec(t *testing.T, kid string) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	point := must.Get(private.PublicKey.Bytes())(t)
	text := func(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
	set, err := json.Marshal(map[string]any{"keys": []any{map[string]any{"kty": "EC", "crv": "P-256", "kid": kid, "alg": "ES256",
		"x": text(point[1:33]), "y": text(point[33:])}}})
	must.Do(t, err)
	return private, set
}

func TestAReloadReadsTheKeysOfAFileAgainAndABadFileChangesNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "jwks.json")
	write := func(set []byte) {
		must.Do(t, os.WriteFile(file, set, 0o600))
	}
	one, first := ec(t, "one")
	two, second := ec(t, "two")
	write(first)
	r := newReloading(t, func(c *auth.Config) { c.JWKS = file })
	before := sign(t, jwt.SigningMethodES256, one, claims(nil), "one")
	after := sign(t, jwt.SigningMethodES256, two, claims(nil), "two")
	r.answers("the first key", before, http.StatusOK)
	write([]byte("{"))
	if err := r.reload(func(*auth.Config) {}); err == nil {
		t.Error("a file that is no key set was taken over")
	}
	r.answers("the first key after a bad file", before, http.StatusOK)
	write(second)
	r.answers("the second key before the reload", after, http.StatusUnauthorized)
	must.Do(t, r.reload(func(*auth.Config) {}))
	r.answers("the second key", after, http.StatusOK)
	r.answers("the first key after the reload", before, http.StatusUnauthorized)
}

func TestAReloadWaitsForTheKeysOfAnotherIssuer(t *testing.T) {
	t.Parallel()
	one, first := ec(t, "one")
	two, second := ec(t, "two")
	serving := func(status int, set []byte) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); _, _ = w.Write(set) }))
		t.Cleanup(server.Close)
		return server.URL
	}
	old := filepath.Join(t.TempDir(), "jwks.json")
	must.Do(t, os.WriteFile(old, first, 0o600))
	r := newReloading(t, func(c *auth.Config) { c.JWKS = old })
	if err := r.reload(func(c *auth.Config) { c.JWKS = serving(http.StatusNotFound, nil) }); err == nil {
		t.Error("an issuer without keys was taken over")
	}
	r.answers("the first key", sign(t, jwt.SigningMethodES256, one, claims(nil), "one"), http.StatusOK)
	must.Do(t, r.reload(func(c *auth.Config) { c.JWKS = serving(http.StatusOK, second) }))
	r.answers("the second key", sign(t, jwt.SigningMethodES256, two, claims(nil), "two"), http.StatusOK)
}

func TestAReloadChangesLimitsAndLeavesTheOthersAsTheyAre(t *testing.T) {
	t.Parallel()
	r := newReloading(t, func(c *auth.Config) { c.Secret, c.Requests = keys.Secret{Value: secret}, 1000 })
	token := good(t, nil)
	refused := func() (n int) {
		for range 20 {
			if ask(r, "GET", "/presence/1", "Authorization", "Bearer "+token).StatusCode == http.StatusTooManyRequests {
				n++
			}
		}
		return n
	}
	if n := refused(); n != 0 {
		t.Fatalf("%d of 20 were refused by a limit of 1000", n)
	}
	if err := r.reload(func(c *auth.Config) { c.Requests = -1 }); err == nil {
		t.Error("a negative limit was taken over")
	}
	must.Do(t, r.reload(func(c *auth.Config) { c.Requests = 1 }))
	if n := refused(); n < 10 {
		t.Errorf("%d of 20 were refused by a limit of 1 with a burst of 5", n)
	}
	must.Do(t, r.reload(func(c *auth.Config) { c.Connects = 7 }))
	if n := refused(); n < 15 {
		t.Errorf("%d of 20 were refused: another setting gave callers a new burst", n)
	}
}

func TestAReloadKeepsHowUsersAreNamed(t *testing.T) {
	t.Parallel()
	const other = "another secret of at least 32 bytes"
	r := newReloading(t, func(c *auth.Config) { c.Secret, c.Users = keys.Secret{Value: secret}, identity.Named(identity.Key{1}) })
	must.Do(t, r.reload(func(c *auth.Config) { c.Secret, c.Users = keys.Secret{Value: other}, identity.Users{} }))
	named := claims(map[string]any{"sub": "anna", "tenant": "acme"})
	r.answers("a user with a name", sign(t, jwt.SigningMethodHS256, []byte(other), named, ""), http.StatusOK)
	r.answers("the secret before", sign(t, jwt.SigningMethodHS256, []byte(secret), named, ""), http.StatusUnauthorized)
}
