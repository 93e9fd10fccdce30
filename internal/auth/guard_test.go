package auth_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

const secret = "0123456789abcdef0123456789abcdef"

// guard stands before a door that tells who came in.
func guard(t *testing.T, change func(*auth.Config)) http.Handler {
	t.Helper()
	c := auth.Defaults()
	c.Secret = keys.Secret{Value: secret}
	c.Issuer, c.Audience = "https://issuer.example", "presence"
	c.Leeway = 0
	if change != nil {
		change(&c)
	}
	g := must.Get(auth.New(t.Context(), c, nil, slog.New(slog.DiscardHandler)))(t)
	type key struct{}
	return g.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, _ := r.Context().Value(key{}).(*auth.Caller)
		if who != nil {
			w.Header().Set("X-User", who.User.String())
			w.Header().Set("X-Gateway", string(who.Gateway))
			w.Header().Set("X-Any", strconv.FormatBool(who.AnyTenant))
		}
		w.Header().Set("X-Query", r.URL.RawQuery)
		_, deadline := r.Context().Deadline()
		w.Header().Set("X-Ends", strconv.FormatBool(deadline))
	}), needOf, func(ctx context.Context, who *auth.Caller) context.Context { return context.WithValue(ctx, key{}, who) })
}

// needOf is what the test's endpoints ask for.
func needOf(r *http.Request) auth.Need {
	switch path := r.URL.Path; path {
	case "/public", "/any":
		return auth.Need{Public: path == "/public"}
	default:
		return auth.Need{Scope: auth.Read, Connects: path == "/presence/stream"}
	}
}

// claims are good ones but for what edit changes; nil deletes.
func claims(edit map[string]any) jwt.MapClaims {
	c := jwt.MapClaims{"sub": "42", "scope": "presence:beat presence:read", "iss": "https://issuer.example", "aud": "presence",
		"exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range edit {
		if value == nil {
			delete(c, name)
		} else {
			c[name] = value
		}
	}
	return c
}

func sign(t *testing.T, method jwt.SigningMethod, key any, c jwt.MapClaims, kid string) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	if kid != "" {
		token.Header["kid"] = kid
	}
	return must.Get(token.SignedString(key))(t)
}

func good(t *testing.T, edit map[string]any) string {
	t.Helper()
	return sign(t, jwt.SigningMethodHS256, []byte(secret), claims(edit), "")
}

// critical is a good token but for a header that has to be understood.
func critical(t *testing.T) string {
	t.Helper()
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims(nil))
	token.Header["crit"] = []string{"b64"}
	return must.Get(token.SignedString([]byte(secret)))(t)
}

func ask(h http.Handler, method, target string, header ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestTokensThatDoNotHoldAreRefused(t *testing.T) {
	t.Parallel()
	h := guard(t, nil)
	parts := strings.Split(good(t, nil), ".")
	forged := must.Get(json.Marshal(claims(map[string]any{"sub": "43"})))(t)
	for name, c := range map[string]struct {
		token  string
		status int
		code   string
	}{
		"good":                          {good(t, nil), 200, ""},
		"scopes as a list":              {good(t, map[string]any{"scope": []string{"presence:read"}}), 200, ""},
		"scopes under the name scp":     {good(t, map[string]any{"scope": nil, "scp": []string{"presence:read"}}), 200, ""},
		"administrator":                 {good(t, map[string]any{"scope": "presence:admin"}), 200, ""},
		"gateway":                       {good(t, map[string]any{"sub": nil, "gateway_id": "gw-1"}), 200, ""},
		"gateway of a named client":     {good(t, map[string]any{"sub": "client-7", "gateway_id": "gw-1"}), 200, ""},
		"a user's and a gateway's":      {good(t, map[string]any{"gateway_id": "gw-1"}), 401, "invalid_token"},
		"critical header":               {critical(t), 401, "invalid_token"},
		"expired":                       {good(t, map[string]any{"exp": time.Now().Add(-time.Second).Unix()}), 401, "invalid_token"},
		"without an end":                {good(t, map[string]any{"exp": nil}), 401, "invalid_token"},
		"not valid yet":                 {good(t, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), 401, "invalid_token"},
		"another issuer":                {good(t, map[string]any{"iss": "https://evil.example"}), 401, "invalid_token"},
		"without an issuer":             {good(t, map[string]any{"iss": nil}), 401, "invalid_token"},
		"another audience":              {good(t, map[string]any{"aud": "billing"}), 401, "invalid_token"},
		"without an audience":           {good(t, map[string]any{"aud": nil}), 401, "invalid_token"},
		"nobody":                        {good(t, map[string]any{"sub": nil}), 401, "invalid_token"},
		"user 0":                        {good(t, map[string]any{"sub": "0"}), 401, "invalid_token"},
		"user -1":                       {good(t, map[string]any{"sub": "-1"}), 401, "invalid_token"},
		"user 2^63":                     {good(t, map[string]any{"sub": "9223372036854775808"}), 401, "invalid_token"},
		"a name for a user":             {good(t, map[string]any{"sub": "alice"}), 401, "invalid_token"},
		"scope that is no text":         {good(t, map[string]any{"scope": 7}), 401, "invalid_token"},
		"alg none":                      {sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims(nil), ""), 401, "invalid_token"},
		"another secret":                {sign(t, jwt.SigningMethodHS256, []byte("another secret of thirty-two bytes"), claims(nil), ""), 401, "invalid_token"},
		"HS512 with the right secret":   {sign(t, jwt.SigningMethodHS512, []byte(secret), claims(nil), ""), 401, "invalid_token"},
		"another user's claims inside":  {parts[0] + "." + base64.RawURLEncoding.EncodeToString(forged) + "." + parts[2], 401, "invalid_token"},
		"signature cut off":             {parts[0] + "." + parts[1] + ".", 401, "invalid_token"},
		"admin in a claim Scope":        {good(t, map[string]any{"Scope": "presence:admin", "scope": nil}), 403, "insufficient_scope"},
		"a user in a claim Sub":         {good(t, map[string]any{"Sub": "42", "sub": nil}), 401, "invalid_token"},
		"a gateway in a claim named so": {good(t, map[string]any{"Gateway_ID": "gw-1", "sub": nil}), 401, "invalid_token"},
		"garbage":                       {"garbage", 401, "invalid_token"},
		"empty":                         {"", 401, "no_token"},
		"lacks the scope":               {good(t, map[string]any{"scope": "presence:beat"}), 403, "insufficient_scope"},
		"scope of a similar name":       {good(t, map[string]any{"scope": "presence:readx xpresence:read"}), 403, "insufficient_scope"},
		"without scopes":                {good(t, map[string]any{"scope": nil}), 403, "insufficient_scope"},
	} {
		answer := ask(h, "GET", "/presence/batch?user_ids=1", "Authorization", "Bearer "+c.token)
		var body struct{ Error struct{ Code string } }
		_ = json.NewDecoder(answer.Body).Decode(&body)
		if answer.StatusCode != c.status || body.Error.Code != c.code {
			t.Errorf("%s: %d %s, want %d %s", name, answer.StatusCode, body.Error.Code, c.status, c.code)
		}
		if wants := answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden; wants != (answer.Header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s: WWW-Authenticate %q", name, answer.Header.Get("WWW-Authenticate"))
		}
	}
}

func TestPublicKeysAreNoSecrets(t *testing.T) {
	t.Parallel()
	private := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	curve := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	set := func(list ...map[string]any) []byte {
		return must.Get(json.Marshal(map[string]any{"keys": list}))(t)
	}
	n := base64.RawURLEncoding.EncodeToString(private.N.Bytes())
	e := base64.RawURLEncoding.EncodeToString(big.NewInt(int64(private.E)).Bytes())
	jwks := set(map[string]any{"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", "n": n, "e": e})
	file := filepath.Join(t.TempDir(), "jwks.json")
	must.Do(t, os.WriteFile(file, jwks, 0o600))
	h := guard(t, func(c *auth.Config) { c.Secret, c.JWKS = keys.Secret{}, file })
	der := must.Get(x509.MarshalPKIXPublicKey(crypto.PublicKey(&private.PublicKey)))(t)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	for name, c := range map[string]struct {
		token  string
		status int
	}{
		"good": {sign(t, jwt.SigningMethodRS256, private, claims(nil), "one"), 200},
		"HS256 with the public key as its secret": {sign(t, jwt.SigningMethodHS256, public, claims(nil), "one"), 401},
		"HS256 with the modulus as its secret":    {sign(t, jwt.SigningMethodHS256, private.N.Bytes(), claims(nil), "one"), 401},
		"another kind of key under the same name": {sign(t, jwt.SigningMethodES256, curve, claims(nil), "one"), 401},
		"a key that is not known":                 {sign(t, jwt.SigningMethodRS256, private, claims(nil), "two"), 401},
		"none":                                    {sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims(nil), "one"), 401},
	} {
		if answer := ask(h, "GET", "/presence/1", "Authorization", "Bearer "+c.token); answer.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", name, answer.StatusCode, c.status)
		}
	}
}

func TestRSAKeysThatAreTooShortSignNothing(t *testing.T) {
	t.Parallel()
	private, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // that is the test
	if err != nil {
		t.Skip(err)
	}
	text, err := json.Marshal(map[string]any{"keys": []any{map[string]any{"kty": "RSA", "kid": "one", "n": base64.RawURLEncoding.EncodeToString(private.N.Bytes()), "e": "AQAB"}}})
	must.Do(t, err)
	file := filepath.Join(t.TempDir(), "jwks.json")
	must.Do(t, os.WriteFile(file, text, 0o600))
	c := auth.Defaults()
	c.JWKS = file
	if _, err := auth.New(t.Context(), c, nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "less than 2048 bits") {
		t.Errorf("a file with such a key: %v", err)
	}
}

// RFC 7517, section 5: keys that are not understood, or lack something, are ignored; so are those that are too short.
func TestOnlyGoodKeysOfAnIssuerCountAndTheOthersOfItsSetStayAsTheyAre(t *testing.T) {
	t.Parallel()
	strong := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	weak, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // that is the test
	must.Do(t, err)
	key := func(kid string, key *rsa.PrivateKey) map[string]any {
		return map[string]any{"kty": "RSA", "kid": kid, "n": base64.RawURLEncoding.EncodeToString(key.N.Bytes()), "e": "AQAB"}
	}
	set, err := json.Marshal(map[string]any{"keys": []any{key("short", weak), key("long", strong), map[string]any{"kty": "AKP", "kid": "later"},
		map[string]any{"kty": "EC", "crv": "secp256k1", "kid": "coin", "x": "AAAA", "y": "AAAA"},
		map[string]any{"kty": "RSA", "kid": "half", "e": "AQAB"}, map[string]any{"kty": "RSA", "kid": "broken", "e": "AQAB", "n": "*"},
		map[string]any{"kty": 7}, 7, nil}})
	must.Do(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(set) }))
	t.Cleanup(server.Close)
	h := guard(t, func(c *auth.Config) { c.Secret, c.JWKS = keys.Secret{}, server.URL })
	good := sign(t, jwt.SigningMethodRS256, strong, claims(nil), "long")
	for ; ask(h, "GET", "/presence/1", "Authorization", "Bearer "+good).StatusCode == http.StatusServiceUnavailable; <-time.After(time.Millisecond) {
	} // until the keys are fetched
	for name, token := range map[string]string{
		"2048 bits":      good,
		"1024 bits":      sign(t, jwt.SigningMethodRS256, weak, claims(nil), "short"),
		"1024 bits, PSS": sign(t, jwt.SigningMethodPS256, weak, claims(nil), "short"),
	} {
		answer := ask(h, "GET", "/presence/1", "Authorization", "Bearer "+token)
		if answer.StatusCode != map[bool]int{true: 200, false: 401}[token == good] {
			t.Errorf("%s: %d", name, answer.StatusCode)
		}
	}
}

func TestKeysThatCannotBeFetchedAreNotTheCallersFault(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	h := guard(t, func(c *auth.Config) { c.Secret, c.JWKS = keys.Secret{}, server.URL })
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	answer := ask(h, "GET", "/presence/1", "Authorization", "Bearer "+sign(t, jwt.SigningMethodES256, private, claims(nil), "one"))
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Fatal(answer.StatusCode, answer.Header)
	}
}

func TestARequestNeedsWhatItsEndpointAsksFor(t *testing.T) {
	t.Parallel()
	h := guard(t, nil)
	for path, status := range map[string]map[string]int{
		"/public":                  {"": 200, auth.Read: 200},
		"/any":                     {"": 401, auth.Beat: 200, auth.Read: 200, auth.Admin: 200},
		"/presence/42":             {"": 401, auth.Beat: 403, auth.Read: 200, auth.Admin: 200},
		"/presence/stream":         {"": 401, auth.Beat: 403, auth.Read: 200, auth.Admin: 200},
		"/presence/42?public=true": {"": 401},
	} {
		for scope, want := range status {
			var header []string
			if scope != "" {
				header = []string{"Authorization", "Bearer " + good(t, map[string]any{"scope": scope})}
			}
			if answer := ask(h, http.MethodGet, path, header...); answer.StatusCode != want {
				t.Errorf("%s with the scope %q: %d, want %d", path, scope, answer.StatusCode, want)
			}
		}
	}
}

func TestATenantIsOfPipelinesWithNamesAlone(t *testing.T) {
	t.Parallel()
	people := identity.Named(identity.Key{1})
	modes := map[string]http.Handler{"int": guard(t, nil), "text": guard(t, func(c *auth.Config) { c.Users = people })}
	acme := people.ID("acme", "42").String()
	for name, c := range map[string]struct {
		edit map[string]any
		// What each mode answers: a status and the user, or the code of the error.
		inInt, inText string
	}{
		"no tenant":              {nil, "200 42", "200 " + people.ID("", "42").String()},
		"a name":                 {map[string]any{"sub": "@a:b.c"}, "401 invalid_token", "200 " + people.ID("", "@a:b.c").String()},
		"a name of nothing":      {map[string]any{"sub": ""}, "401 invalid_token", "401 invalid_token"},
		"a tenant":               {map[string]any{"tenant": "acme"}, "403 tenants_need_text_ids", "200 " + acme},
		"the default tenant":     {map[string]any{"tenant": ""}, "200 42", "200 " + people.ID("", "42").String()},
		"a tenant and a gateway": {map[string]any{"tenant": "acme", "sub": nil, "gateway_id": "g"}, "403 tenants_need_text_ids", "200 0"},
		"a tenant with a slash":  {map[string]any{"tenant": "a/b"}, "401 invalid_token", "401 invalid_token"},
		"several tenants":        {map[string]any{"tenant": []string{"acme", "beta"}}, "403 tenants_need_text_ids", "401 invalid_token"},
		"several of a gateway":   {map[string]any{"tenant": []string{"acme", ""}, "sub": nil, "gateway_id": "g"}, "403 tenants_need_text_ids", "200 0"},
		"a list of one":          {map[string]any{"tenant": []string{"acme"}}, "403 tenants_need_text_ids", "200 " + acme},
		"an empty list":          {map[string]any{"tenant": []string{}}, "401 invalid_token", "401 invalid_token"},
		"a bad one in a list":    {map[string]any{"tenant": []string{"acme", "a/b"}, "sub": nil, "gateway_id": "g"}, "401 invalid_token", "401 invalid_token"},
		"a tenant that is none":  {map[string]any{"tenant": 7}, "401 invalid_token", "401 invalid_token"},
		"a claim Tenant":         {map[string]any{"Tenant": "acme"}, "200 42", "200 " + people.ID("", "42").String()},
		"half a surrogate pair":  {map[string]any{"sub": json.RawMessage(`"42\ud800"`)}, "401 invalid_token", "401 invalid_token"},
		"sub beside a gateway":   {map[string]any{"sub": "42", "gateway_id": "g"}, "401 invalid_token", "200 0"},
	} {
		for mode, want := range map[string]string{"int": c.inInt, "text": c.inText} {
			answer := ask(modes[mode], "GET", "/presence/batch?user_ids=1", "Authorization", "Bearer "+good(t, c.edit))
			var body struct{ Error struct{ Code string } }
			_ = json.NewDecoder(answer.Body).Decode(&body)
			got := strconv.Itoa(answer.StatusCode) + " " + answer.Header.Get("X-User") + body.Error.Code
			if got != want {
				t.Errorf("%s with --ids %s: %s, want %s", name, mode, got, want)
			}
		}
	}
}

func TestOnlyGatewaysAndAdministratorsWhoseTenantSaysSoMayNameAny(t *testing.T) {
	t.Parallel()
	gateway, admin := map[string]any{"sub": nil, "gateway_id": "g"}, map[string]any{"scope": "presence:admin"}
	both := map[string]any{"sub": nil, "gateway_id": "g", "scope": "presence:admin"}
	modes := map[string]http.Handler{"int": guard(t, nil), "text": guard(t, func(c *auth.Config) { c.Users = identity.Named(identity.Key{1}) })}
	for name, c := range map[string]struct {
		of            map[string]any
		tenant        any // nil: no claim
		inInt, inText string
	}{
		"a gateway":                          {gateway, nil, "200 true", "200 false"},
		"an administrator":                   {admin, nil, "200 true", "200 false"},
		"a gateway that administrates":       {both, nil, "200 true", "200 false"},
		"a user":                             {nil, nil, "200 false", "200 false"},
		"a gateway, empty":                   {gateway, "", "200 true", "200 false"},
		"an administrator, empty":            {admin, "", "200 true", "200 false"},
		"a gateway, any":                     {gateway, "*", "403", "200 true"},
		"an administrator, any":              {admin, "*", "403", "200 true"},
		"a gateway that administrates, any":  {both, []string{"*"}, "403", "200 true"},
		"a user, any":                        {nil, "*", "403", "401"},
		"a gateway, any and one":             {gateway, []string{"*", "acme"}, "401", "401"},
		"an administrator, several":          {both, []string{"acme", ""}, "403", "200 false"},
		"an administrator, any with a space": {admin, "* ", "401", "401"},
	} {
		edit := map[string]any{"tenant": c.tenant}
		maps.Copy(edit, c.of)
		for mode, want := range map[string]string{"int": c.inInt, "text": c.inText} {
			answer := ask(modes[mode], "GET", "/presence/42", "Authorization", "Bearer "+good(t, edit))
			got := strconv.Itoa(answer.StatusCode)
			if answer.StatusCode == http.StatusOK {
				got += " " + answer.Header.Get("X-Any")
			}
			if got != want {
				t.Errorf("%s with --ids %s: %s, want %s", name, mode, got, want)
			}
		}
	}
}

func TestATokenInTheQueryOpensSocketsAndGoesNoFurther(t *testing.T) {
	t.Parallel()
	h := guard(t, nil)
	token := url.QueryEscape(good(t, nil))
	answer := ask(h, "GET", "/presence/stream?user_ids=1&access_token="+token)
	if answer.StatusCode != http.StatusOK || answer.Header.Get("X-User") != "42" || answer.Header.Get("X-Query") != "user_ids=1" || answer.Header.Get("X-Ends") != "true" {
		t.Error(answer.StatusCode, answer.Header)
	}
	for _, target := range []string{
		"/presence/batch?user_ids=1&access_token=" + token,                  // would be in logs and histories
		"/presence/stream?access_token=" + token + "&access_token=" + token, // which?
	} {
		if answer := ask(h, "GET", target); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d", target[:30], answer.StatusCode)
		}
	}
	if answer := ask(h, "GET", "/presence/stream?access_token="+token, "Authorization", "Bearer "+good(t, nil)); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("two tokens: %d", answer.StatusCode)
	}
	if answer := ask(h, "GET", "/presence/batch", "Authorization", "Basic dTpw"); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("Basic: %d", answer.StatusCode)
	}
}

func TestOneUserWhoAsksTooOftenGetsARetryTimeAndOthersAreServed(t *testing.T) {
	t.Parallel()
	h := guard(t, func(c *auth.Config) { c.Requests, c.Connects = 0.1, 12 })
	mine := "Bearer " + good(t, nil)
	if answer := ask(h, "GET", "/presence/1", "Authorization", mine); answer.StatusCode != http.StatusOK {
		t.Fatal(answer.StatusCode)
	}
	answer := ask(h, "GET", "/presence/1", "Authorization", mine)
	after, err := strconv.Atoi(answer.Header.Get("Retry-After"))
	if answer.StatusCode != http.StatusTooManyRequests || err != nil || after < 1 || after > 10 {
		t.Fatal(answer.StatusCode, answer.Header)
	}
	if answer := ask(h, "GET", "/presence/stream", "Authorization", mine); answer.StatusCode != http.StatusOK {
		t.Errorf("connections are counted apart: %d", answer.StatusCode)
	}
	if answer := ask(h, "GET", "/presence/stream", "Authorization", mine); answer.StatusCode != http.StatusTooManyRequests {
		t.Errorf("the second connection: %d", answer.StatusCode)
	}
	for _, other := range []map[string]any{{"sub": "43"}, {"sub": nil, "gateway_id": "gw"}, {"sub": nil, "gateway_id": "gw"}} {
		if answer := ask(h, "GET", "/presence/1", "Authorization", "Bearer "+good(t, other)); answer.StatusCode != http.StatusOK {
			t.Errorf("%v: %d", other, answer.StatusCode)
		}
	}
}

func TestSettingsThatCannotWorkAreRefusedByName(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*auth.Config){
		"auth_secret: must be at least 32 bytes": func(c *auth.Config) { c.Secret.Value = "short" },
		"auth_secret, auth_jwks":                 func(c *auth.Config) { c.Secret.Value, c.JWKS = secret, "https://x.example" },
		"auth_issuer, auth_audience":             func(c *auth.Config) { c.Issuer = "x" },
		"auth_jwks: must be":                     func(c *auth.Config) { c.JWKS = "ftp://x" },
		"auth_leeway":                            func(c *auth.Config) { c.Leeway = time.Hour },
		"limit_requests":                         func(c *auth.Config) { c.Requests = -1 },
	} {
		c := auth.Defaults()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got: %v", want, err)
		}
	}
}

func TestEveryBeatOfARequestIsChargedToItsUserAndARequestThatNeverFitsIsRefusedAsSuch(t *testing.T) {
	t.Parallel()
	c := auth.Defaults()
	c.Secret, c.Requests = keys.Secret{Value: secret}, 10 // 50 at once
	g := must.Get(auth.New(t.Context(), c, nil, slog.New(slog.DiscardHandler)))(t)
	of := func(user schemas.UserID) *auth.Caller { return &auth.Caller{User: user} }
	if wait, most := g.Charge(of(1), 49); wait != 0 || most != 0 {
		t.Errorf("49 beats have to wait %s, and no more than %d fit", wait, most)
	}
	if wait, most := g.Charge(of(1), 11); wait <= 0 || wait > time.Second || most != 0 {
		t.Errorf("11 more have to wait %s, and no more than %d fit; there was room for 2", wait, most)
	}
	if wait, most := g.Charge(of(2), 51); wait != 0 || most != 50 {
		t.Errorf("51 beats have to wait %s, and no more than %d fit, want 50", wait, most)
	}
	if wait, _ := g.Charge(of(2), 11); wait <= 0 {
		t.Error("a request that never fits costs nothing")
	}
	for who, caller := range map[string]*auth.Caller{"another user": of(3), "a gateway": {Gateway: "gw"}, "one beat": of(2)} {
		beats := map[string]int{"another user": 50, "a gateway": 10_000, "one beat": 1}[who]
		if wait, most := g.Charge(caller, beats); wait != 0 || most != 0 {
			t.Errorf("%s has to wait %s, and no more than %d fit", who, wait, most)
		}
	}
}
