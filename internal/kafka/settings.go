package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/internal/signing"
)

// Settings say how to reach Kafka, as operators write it: names of files in place of what
// is in them. app.Kafka has the same fields, with their meaning.
type Settings struct {
	Brokers []string
	Prefix  string

	TLS                                      bool
	TLSCA, TLSCert, TLSKey                   string
	SASL, User, Password, PasswordFile       string
	TokenFile, OAuthURL, OAuthClient         string
	OAuthSecret, OAuthSecretFile, OAuthScope string

	IDs, IdentityKey, IdentityKeyFile string

	FrameKeys string

	Dialer func(ctx context.Context, network, address string) (net.Conn, error)

	TickInterval, IdleCommitInterval, WatermarkInterval time.Duration
	SessionTimeout, RebalanceTimeout, StallTimeout      time.Duration
}

// Config checks s and converts it. Files are read again for every connection. The error
// names every flag that is wrong.
func (s Settings) Config() (Config, error) {
	c := Config{
		Brokers: s.Brokers, Prefix: s.Prefix, Dialer: s.Dialer,
		TickInterval: s.TickInterval, IdleCommitInterval: s.IdleCommitInterval, WatermarkInterval: s.WatermarkInterval,
		SessionTimeout: s.SessionTimeout, RebalanceTimeout: s.RebalanceTimeout, StallTimeout: s.StallTimeout,
	}
	var unnamed error
	c.Users, unnamed = identity.Of(identity.Mode(s.IDs), keys.Secret{Value: s.IdentityKey, File: s.IdentityKeyFile})
	var unsigned error
	if s.FrameKeys != "" {
		if c.Keys, unsigned = signing.Open(s.FrameKeys); unsigned != nil {
			unsigned = fmt.Errorf("--frame-keys: %w", unsigned)
		}
	}
	if err := errors.Join(unnamed, unsigned, s.tls().CheckFlags("--kafka-tls", s.TLS), s.checkSASL()); err != nil {
		return c, err
	}
	if s.TLS {
		c.Dialer = s.tls().Dialer(s.Dialer)
	}
	if s.SASL == "" {
		return c, nil
	}
	c.Security = &Security{Mechanism: s.SASL, User: s.User, Credentials: func(context.Context) (string, string, error) {
		text, err := s.password().Read()
		return s.User, text, err
	}}
	c.Security.Token = func(context.Context) (string, error) { return keys.Secret{File: s.TokenFile}.Read() }
	if s.OAuthURL != "" {
		endpoint := &keys.ClientCredentials{
			URL: s.OAuthURL, ClientID: s.OAuthClient, Scope: s.OAuthScope,
			Secret: keys.Secret{Value: s.OAuthSecret, File: s.OAuthSecretFile},
		}
		c.Security.Token = endpoint.Token
	}
	return c, nil
}

func (s Settings) password() keys.Secret {
	return keys.Secret{Value: s.Password, File: s.PasswordFile}
}

func (s Settings) tls() keys.TLS {
	return keys.TLS{CA: s.TLSCA, Cert: s.TLSCert, Key: s.TLSKey}
}

func (s Settings) checkSASL() error {
	var all faults.List
	password, oauth := s.password(), s.SASL == "OAUTHBEARER"
	all.If(s.SASL == "" && (s.User != "" || password.Given()), "--kafka-user and a password need --kafka-sasl")
	all.If(password.Value != "" && password.File != "", "--kafka-password-file and STILLHERE_KAFKA_PASSWORD exclude each other")
	if s.SASL != "" && !oauth {
		all.If(s.User == "", "--kafka-sasl %s needs --kafka-user", s.SASL)
		all.If(!password.Given(), "--kafka-sasl %s needs --kafka-password-file or STILLHERE_KAFKA_PASSWORD", s.SASL)
		_, err := password.Read()
		all.In("--kafka-password-file", err)
	}
	token := s.TokenFile != ""
	all.If(!oauth && (token || s.OAuthURL != ""),
		"--kafka-oauth-token-file and --kafka-oauth-url need --kafka-sasl OAUTHBEARER")
	if !oauth {
		return all.Err()
	}
	all.If(token == (s.OAuthURL != ""), "--kafka-sasl OAUTHBEARER needs either --kafka-oauth-token-file or --kafka-oauth-url")
	if token {
		_, err := keys.Secret{File: s.TokenFile}.Read()
		all.In("--kafka-oauth-token-file", err)
		return all.Err()
	}
	where, err := url.Parse(s.OAuthURL)
	all.If(err != nil || where.Host == "" || where.Scheme != "https" && where.Scheme != "http",
		"--kafka-oauth-url must be an http(s) URL")
	all.If(s.OAuthClient == "", "--kafka-oauth-url needs --kafka-oauth-client-id")
	all.If((s.OAuthSecret == "") == (s.OAuthSecretFile == ""),
		"--kafka-oauth-url needs either --kafka-oauth-client-secret or --kafka-oauth-client-secret-file")
	return all.Err()
}
