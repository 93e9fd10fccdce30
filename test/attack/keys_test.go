//go:build unix

package attack_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"
)

// RFC 7517, section 5: keys that are not understood, or lack something, are ignored.
func TestAKeyThatIsNotUnderstoodLeavesTheOthersOfItsSetAlone(t *testing.T) {
	t.Parallel()
	i := newKeyServer(t, testkit.FreePort(t))
	i.beside = []any{
		map[string]any{"kty": "AKP", "kid": "later", "alg": "ML-DSA-44", "pub": "AAAA"},
		map[string]any{"kty": "EC", "crv": "secp256k1", "kid": "coin", "x": "AAAA", "y": "AAAA"},
		map[string]any{"kty": "RSA", "kid": "half", "e": "AQAB"},
		map[string]any{"kty": "RSA", "kid": "broken", "e": "AQAB", "n": "*"},
		map[string]any{"kty": 7}, 7, nil,
	}
	h := testkit.NewDev(t, "--auth-jwks", i.server.URL+"/keys", "--limit-requests", "0")
	h.Up()
	testkit.Until(t, "a token of the good key is taken", 10*time.Second, func() bool { return readsAs(h, i.token()) == http.StatusOK })
}
