package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestAnIssuerThatWithdrawsAllItsKeysVerifiesNothing(t *testing.T) {
	t.Parallel()
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	point := must.Get(private.PublicKey.Bytes())(t)
	part := base64.RawURLEncoding.EncodeToString
	key := fmt.Sprintf(`{"kty":"EC","crv":"P-256","kid":"one","alg":"ES256","x":%q,"y":%q}`, part(point[1:33]), part(point[33:]))
	forEncryption := fmt.Sprintf(`{"kty":"EC","use":"enc","crv":"P-256","kid":"one","x":%q,"y":%q}`, part(point[1:33]), part(point[33:]))
	signed := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"sub": "1"})
	signed.Header["kid"] = "one"
	for withdrawn, verifies := range map[string]bool{
		`{"keys":[]}`:                        false,
		`{"keys":[{"kty":"unknown"}]}`:       false,
		`{"keys":[` + forEncryption + `]}`:   false,
		`{}`:                                 true, // of another server, or an error: the known keys stay
		`{"keys":null}`:                      true,
		`<html>`:                             true,
		`{"keys":[{"kty":"x"},` + key + `]}`: true,
	} {
		set := `{"keys":[` + key + `]}`
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, set) }))
		k := newKeys(func() {})
		k.url, k.log = server.URL, slog.New(slog.DiscardHandler)
		must.Do(t, k.fetch(t.Context()))
		set = withdrawn
		err := k.fetch(t.Context())
		if _, refused := k.key(signed); (refused == nil) != verifies || errors.Is(err, errNoneUsable) == verifies {
			t.Errorf("after %s: %v, the fetch says %v", withdrawn, refused, err)
		}
		server.Close()
	}
}
