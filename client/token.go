package client

import (
	"context"
	"net/http"

	"github.com/stillhere/stillhere/internal/keys"
)

// TokenSource returns a token that is valid now. Several goroutines may call it at a time.
type TokenSource func(ctx context.Context) (string, error)

// Token is a source of one token.
func Token(token string) TokenSource {
	return func(context.Context) (string, error) { return token, nil }
}

// TokenFile reads the token from a file at each use.
func TokenFile(path string) TokenSource {
	return func(context.Context) (string, error) { return keys.Secret{File: path}.Read() }
}

// ClientCredentials gets tokens from an OAuth 2.0 token endpoint by the client credentials grant
// (RFC 6749, section 4.4), and uses each until shortly before it expires. scope may be empty. with
// makes the requests; nil: http.DefaultClient.
func ClientCredentials(url, clientID, secret, scope string, with *http.Client) TokenSource {
	endpoint := &keys.ClientCredentials{URL: url, ClientID: clientID, Secret: keys.Secret{Value: secret},
		Scope: scope, Client: with}
	return endpoint.Token
}
