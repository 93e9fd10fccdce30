// Package connect converts the public settings to those of the internal packages.
package connect

import (
	"context"
	"fmt"
	"net/http"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/keys"
)

// Kafka converts k, which must be valid, for a client of that name.
func Kafka(k client.Kafka, name string) (kafka.Config, error) {
	c := kafka.Config{Brokers: k.Brokers, Prefix: k.TopicPrefix, ClientID: name, Dialer: k.Dial}
	if f := k.TLSFiles; f != nil {
		files := keys.TLS{CA: f.CA, Cert: f.Cert, Key: f.Key, ServerName: f.ServerName}
		if err := files.Check(); err != nil {
			return c, fmt.Errorf("kafka.tls_files: %w", err)
		}
		c.Dialer = files.Dialer(k.Dial)
	}
	if k.TLS == nil && k.SASL == "" {
		return c, nil
	}
	c.Security = &kafka.Security{TLS: k.TLS, Mechanism: k.SASL, User: k.User, Credentials: k.Credentials,
		Token: k.Token}
	if password := (keys.Secret{Value: k.Password, File: k.PasswordFile}); c.Security.Credentials == nil {
		c.Security.Credentials = func(context.Context) (string, string, error) {
			text, err := password.Read()
			return k.User, text, err
		}
	}
	return c, nil
}

// Header returns the header that authorizes one request of h.
func Header(ctx context.Context, h client.HTTP) (http.Header, error) {
	if h.Token == nil {
		return http.Header{}, nil
	}
	token, err := h.Token(ctx)
	if err != nil {
		return nil, fmt.Errorf("getting a token: %w", err)
	}
	return http.Header{"Authorization": {"Bearer " + token}}, nil
}
