package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/keys"
)

// secure carries what the Kafka flags say of TLS and SASL into c. The error
// names every flag that is wrong.
func (f kafkaFlags) secure(c *kafka.Config) error {
	err := errors.Join(f.checkTLS(), f.checkSASL())
	if err != nil {
		return err
	}
	if f.KafkaTLS {
		c.Dialer = f.tls().Dialer(nil)
	}
	if f.KafkaSASL == "" {
		return nil
	}
	c.Security = &kafka.Security{Mechanism: f.KafkaSASL, User: f.KafkaUser}
	password := keys.Secret{Value: f.KafkaPassword, File: f.KafkaPassFile}
	c.Security.Credentials = func(context.Context) (string, string, error) {
		text, err := password.Read()
		return f.KafkaUser, text, err
	}
	token := keys.Secret{File: f.KafkaOAuthTokenFile}
	c.Security.Token = func(context.Context) (string, error) { return token.Read() }
	if f.KafkaOAuthURL != "" {
		endpoint := &keys.ClientCredentials{
			URL: f.KafkaOAuthURL, ClientID: f.KafkaOAuthClient, Scope: f.KafkaOAuthScope,
			Secret: keys.Secret{Value: f.KafkaOAuthSecret, File: f.KafkaOAuthSecretFile},
		}
		c.Security.Token = endpoint.Token
	}
	return nil
}

func (f kafkaFlags) tls() keys.TLS {
	return keys.TLS{CA: f.KafkaTLSCA, Cert: f.KafkaTLSCert, Key: f.KafkaTLSKey, ServerName: f.KafkaTLSName}
}

func (f kafkaFlags) checkTLS() error {
	var c check
	c.that(f.KafkaTLS || f.KafkaTLSCA+f.KafkaTLSCert+f.KafkaTLSKey+f.KafkaTLSName == "", "--kafka-tls-ca, -cert, -key and -server-name need --kafka-tls")
	c.that((f.KafkaTLSCert == "") == (f.KafkaTLSKey == ""), "--kafka-tls-cert and --kafka-tls-key go together")
	if len(c.faults) == 0 && f.KafkaTLS {
		c.err("--kafka-tls", f.tls().Check())
	}
	return c.join()
}

func (f kafkaFlags) checkSASL() error {
	var c check
	password, oauth := keys.Secret{Value: f.KafkaPassword, File: f.KafkaPassFile}, f.KafkaSASL == "OAUTHBEARER"
	c.that(f.KafkaSASL != "" || f.KafkaUser == "" && !password.Given(), "--kafka-user and --kafka-password need --kafka-sasl")
	c.that(password.Value == "" || password.File == "", "--kafka-password and --kafka-password-file exclude each other")
	if f.KafkaSASL != "" && !oauth {
		c.that(f.KafkaUser != "", "--kafka-sasl %s needs --kafka-user", f.KafkaSASL)
		c.that(password.Given(), "--kafka-sasl %s needs --kafka-password or --kafka-password-file", f.KafkaSASL)
		_, err := password.Read()
		c.err("--kafka-password-file", err)
	}
	token := f.KafkaOAuthTokenFile != ""
	c.that(oauth || !token && f.KafkaOAuthURL == "", "--kafka-oauth-token-file and --kafka-oauth-url need --kafka-sasl OAUTHBEARER")
	if !oauth {
		return c.join()
	}
	c.that(token != (f.KafkaOAuthURL != ""), "--kafka-sasl OAUTHBEARER needs either --kafka-oauth-token-file or --kafka-oauth-url")
	if token {
		_, err := keys.Secret{File: f.KafkaOAuthTokenFile}.Read()
		c.err("--kafka-oauth-token-file", err)
		return c.join()
	}
	where, err := url.Parse(f.KafkaOAuthURL)
	c.that(err == nil && where.Host != "" && (where.Scheme == "https" || where.Scheme == "http"), "--kafka-oauth-url must be an http(s) URL")
	c.that(f.KafkaOAuthClient != "", "--kafka-oauth-url needs --kafka-oauth-client-id")
	c.that((f.KafkaOAuthSecret == "") != (f.KafkaOAuthSecretFile == ""), "--kafka-oauth-url needs either --kafka-oauth-client-secret or --kafka-oauth-client-secret-file")
	return c.join()
}

// check gathers faults of flags.
type check struct{ faults []error }

func (c *check) that(holds bool, format string, args ...any) {
	if !holds {
		c.faults = append(c.faults, fmt.Errorf(format, args...))
	}
}

func (c *check) err(flag string, err error) {
	if err != nil {
		c.faults = append(c.faults, fmt.Errorf("%s: %w", flag, err))
	}
}

func (c *check) join() error { return errors.Join(c.faults...) }
