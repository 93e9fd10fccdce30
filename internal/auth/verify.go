package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/keys"
)

// errNoKeys says that tokens cannot be verified now.
var errNoKeys = errors.New("the keys that verify tokens are not known yet")

// errCritical says that a token requires an extension that is not supported (RFC 7515, section 4.1.11).
var errCritical = errors.New("the token has a critical header (crit) that is not understood")

// verifier checks tokens. Any goroutine may use it.
type verifier struct {
	parser *jwt.Parser
	key    jwt.Keyfunc
	users  identity.Users
	keys   *jwks // nil where a secret signs
}

// newVerifier fetches the keys every hour, and when a token names an unknown one, until ctx ends or
// stop is called.
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
		signer := &secretKey{secret: c.Secret, now: time.Now}
		return &verifier{parser: jwt.NewParser(options...), key: understood(signer.key), users: c.Users}, nil
	}
	// Not HS256: an attacker could use a public key as its secret.
	options = append(options, jwt.WithValidMethods([]string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}))
	if c.fetches() {
		keys := watchKeys(ctx, c.JWKS, log)
		return &verifier{jwt.NewParser(options...), understood(keys.key), c.Users, keys}, nil
	}
	keys, err := keysOf(c.JWKS)
	if err != nil {
		return nil, fmt.Errorf("auth_jwks: %w", err)
	}
	return &verifier{jwt.NewParser(options...), understood(keys.key), c.Users, keys}, nil
}

// secretKey is a secret that is read at most once a second, so that each forged token does not
// cause a file read. While the file is missing or too short, the secret that was read before
// counts; a reload reports the fault. Any goroutine may use it.
type secretKey struct {
	secret keys.Secret
	now    func() time.Time

	mu    sync.Mutex
	value []byte
	read  time.Time
}

const readSecretEvery = time.Second

func (k *secretKey) key(*jwt.Token) (any, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if k.value != nil && now.Sub(k.read) < readSecretEvery {
		return k.value, nil
	}
	value, err := readSecret(k.secret)
	switch {
	case err == nil:
		k.value = []byte(value)
	case k.value == nil:
		return nil, err
	}
	k.read = now
	return k.value, nil
}

// understood refuses tokens with a critical header.
func understood(key jwt.Keyfunc) jwt.Keyfunc {
	return func(token *jwt.Token) (any, error) {
		if _, critical := token.Header["crit"]; critical {
			return nil, errCritical
		}
		return key(token)
	}
}

func (v *verifier) ready(ctx context.Context) error {
	if v.keys == nil {
		return nil
	}
	return v.keys.ready(ctx)
}

// stop stops fetching and returns when that has ended.
func (v *verifier) stop() {
	if v.keys != nil {
		v.keys.stop()
		<-v.keys.ended
	}
}

// fetched waits until there are keys, or returns why the first fetch failed.
func (v *verifier) fetched(ctx context.Context) error {
	if v.keys == nil {
		return nil
	}
	select {
	case err := <-v.keys.first:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// verify returns the caller of a token. The error is errNoKeys or says what is wrong with it.
func (v *verifier) verify(ctx context.Context, token string) (*Caller, error) {
	var c claims
	if _, err := v.parser.ParseWithClaims(token, &c, v.key); err != nil {
		if none := v.ready(ctx); none != nil {
			return nil, none
		}
		if v.keys != nil && (errors.Is(err, jwt.ErrTokenUnverifiable) || errors.Is(err, jwt.ErrTokenSignatureInvalid)) {
			v.keys.ask() // it may be signed with a new key
		}
		return nil, err
	}
	return c.caller(v.users)
}
