//go:build unix

package process_test

import (
	"net/http"
	"testing"
	"time"
)

// RFC 7517, section 5: keys that are not understood, or lack something, are ignored.
func TestAKeyThatIsNotUnderstoodLeavesTheOthersOfItsSetAlone(t *testing.T) {
	t.Parallel()
	i := newKeyServer(t, freePort(t))
	i.beside = []any{
		map[string]any{"kty": "AKP", "kid": "later", "alg": "ML-DSA-44", "pub": "AAAA"},
		map[string]any{"kty": "EC", "crv": "secp256k1", "kid": "coin", "x": "AAAA", "y": "AAAA"},
		map[string]any{"kty": "RSA", "kid": "half", "e": "AQAB"},
		map[string]any{"kty": "RSA", "kid": "broken", "e": "AQAB", "n": "*"},
		map[string]any{"kty": 7}, 7, nil,
	}
	h := newHouse(t, "--auth-jwks", i.server.URL+"/keys", "--limit-requests", "0")
	h.up()
	until(t, "a token of the good key is taken", 10*time.Second, func() bool { return h.readsAs(i.token()) == http.StatusOK })
}
