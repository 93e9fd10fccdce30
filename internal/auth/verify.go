package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/time/rate"
)

// errNoKeys says that tokens cannot be judged now.
var errNoKeys = errors.New("the keys that tokens are signed with are not known yet")

// verifier checks tokens. Any goroutine may use it.
type verifier struct {
	parser *jwt.Parser
	key    jwt.Keyfunc
	ready  func(context.Context) error // why tokens cannot be judged
}

// newVerifier starts to fetch the keys, again every hour and when a token names one
// that is not known, until ctx ends.
func newVerifier(ctx context.Context, c Config, log *slog.Logger) (*verifier, error) {
	options := []jwt.ParserOption{jwt.WithExpirationRequired(), jwt.WithLeeway(c.Leeway), jwt.WithStrictDecoding()}
	if c.Issuer != "" {
		options = append(options, jwt.WithIssuer(c.Issuer))
	}
	if c.Audience != "" {
		options = append(options, jwt.WithAudience(c.Audience))
	}
	if c.Secret.Given() {
		options = append(options, jwt.WithValidMethods([]string{"HS256"}))
		key := func(*jwt.Token) (any, error) {
			secret, err := c.Secret.Read()
			return []byte(secret), err
		}
		return &verifier{jwt.NewParser(options...), key, func(context.Context) error { return nil }}, nil
	}
	// No HS: a public key would serve as its secret.
	options = append(options, jwt.WithValidMethods([]string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}))
	set, err := keySet(ctx, c.JWKS, log)
	if err != nil {
		return nil, fmt.Errorf("auth_jwks: %w", err)
	}
	ready := func(ctx context.Context) error {
		if all, err := set.Storage().KeyReadAll(ctx); err != nil || len(all) == 0 {
			return errors.Join(errNoKeys, err)
		}
		return nil
	}
	return &verifier{jwt.NewParser(options...), set.Keyfunc, ready}, nil
}

func keySet(ctx context.Context, where string, log *slog.Logger) (keyfunc.Keyfunc, error) {
	if !strings.Contains(where, "://") {
		text, err := os.ReadFile(where)
		if err != nil {
			return nil, err
		}
		return keyfunc.NewJWKSetJSON(json.RawMessage(text))
	}
	return keyfunc.NewDefaultOverrideCtx(ctx, []string{where}, keyfunc.Override{
		HTTPTimeout:     10 * time.Second,
		RefreshInterval: time.Hour,
		// Forged key ids must neither make us ask the server all the time nor let
		// requests wait for their turn.
		RefreshUnknownKID: rate.NewLimiter(rate.Every(10*time.Second), 1),
		RateLimitWaitMax:  10 * time.Millisecond,
		RefreshErrorHandlerFunc: func(url string) func(context.Context, error) {
			return func(ctx context.Context, err error) {
				log.WarnContext(ctx, "the keys for tokens cannot be fetched; those known go on", "url", url, "error", err)
			}
		},
	})
}

// verify is whose token it is. An error is errNoKeys, or tells what is wrong with
// the token.
func (v *verifier) verify(ctx context.Context, token string) (*Caller, error) {
	var c claims
	if _, err := v.parser.ParseWithClaims(token, &c, v.key); err != nil {
		if none := v.ready(ctx); none != nil {
			return nil, none
		}
		return nil, err
	}
	return c.caller()
}
