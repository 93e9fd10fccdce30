package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/internal/keys"
)

// Security configures encryption and authentication of connections.
type Security struct {
	// TLS is nil for none. To follow renewals of its files, use a Config.Dialer that performs the
	// handshake.
	TLS *tls.Config
	// Mechanism is "", PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.
	Mechanism      string
	User, Password string
	// Credentials, if set, returns user and password for each connection. It must be safe for
	// concurrent use.
	Credentials func(ctx context.Context) (user, password string, err error)
	// Token returns a token for each connection; OAUTHBEARER needs it.
	Token func(ctx context.Context) (string, error)
}

// Mechanisms are the ways to authenticate.
var Mechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}

// validate reports all faults, joined.
func (s *Security) validate() error {
	if s == nil || s.Mechanism == "" {
		return nil
	}
	var all faults.List
	all.If(!slices.Contains(Mechanisms, s.Mechanism), "SASL mechanism %q: must be one of %s", s.Mechanism,
		strings.Join(Mechanisms, ", "))
	all.If(s.Mechanism == "OAUTHBEARER" && s.Token == nil, "SASL mechanism OAUTHBEARER: needs a token")
	all.If(s.Mechanism != "OAUTHBEARER" && s.Credentials == nil && s.User == "",
		"SASL mechanism %s: needs a user", s.Mechanism)
	return all.Err()
}

func (s *Security) options() ([]kgo.Opt, error) {
	if s == nil {
		return nil, nil
	}
	if err := s.validate(); err != nil {
		return nil, err
	}
	var options []kgo.Opt
	if s.TLS != nil {
		options = append(options, kgo.DialTLSConfig(s.TLS))
	}
	if mechanism := s.mechanism(); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return options, nil
}

func (s *Security) mechanism() sasl.Mechanism {
	ask := s.Credentials
	if ask == nil {
		ask = func(context.Context) (string, string, error) { return s.User, s.Password, nil }
	}
	scramAuth := func(ctx context.Context) (scram.Auth, error) {
		user, password, err := ask(ctx)
		return scram.Auth{User: user, Pass: password}, err
	}
	switch s.Mechanism {
	case "PLAIN":
		return plain.Plain(func(ctx context.Context) (plain.Auth, error) {
			user, password, err := ask(ctx)
			return plain.Auth{User: user, Pass: password}, err
		})
	case "SCRAM-SHA-256":
		return scram.Sha256(scramAuth)
	case "SCRAM-SHA-512":
		return scram.Sha512(scramAuth)
	case "OAUTHBEARER":
		return bearer{oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
			token, err := s.Token(ctx)
			return oauth.Auth{Token: token}, err
		})}
	}
	return nil
}

// bearer is the client's OAUTHBEARER with the reason for a refused token: Kafka sends it in an
// answer that looks like a success (RFC 7628, section 3.2.2).
type bearer struct{ sasl.Mechanism }

func (b bearer) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	session, first, err := b.Mechanism.Authenticate(ctx, host)
	return bearerSession{session}, first, err
}

type bearerSession struct{ sasl.Session }

func (s bearerSession) Challenge(answer []byte) (bool, []byte, error) {
	if len(answer) > 0 {
		return false, nil, fmt.Errorf("the broker refuses the token: "+
			"it is wrong or has expired, or is for somebody else (%.200s)", answer)
	}
	return s.Session.Challenge(answer)
}

// ExplainConnection adds the remedy to an authentication error of Kafka or its client. It returns
// other errors unchanged.
func ExplainConnection(err error) error {
	var first *kgo.ErrFirstReadEOF // explains itself
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Errorf("%w: the broker does not know this user, or the password or token is wrong or has expired", err)
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return fmt.Errorf("%w: the broker does not offer this SASL mechanism where we connected", err)
	case errors.Is(err, kerr.IllegalSaslState):
		return fmt.Errorf("%w: the broker does not expect SASL where we connected", err)
	case errors.Is(err, io.EOF) && !errors.As(err, &first):
		return fmt.Errorf("%w: the broker closed the connection, because it stops, or because of a wrong user or password", err)
	}
	return keys.Explain(err)
}

// connectionErrors holds the error of the last connection attempt: the error of a record that was
// given up reports only its timeout.
type connectionErrors struct{ last atomic.Pointer[error] }

// OnBrokerConnect is called by the client after each attempt, authentication included.
func (r *connectionErrors) OnBrokerConnect(broker kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		err = fmt.Errorf("connecting to %s:%d: %w", broker.Host, broker.Port, ExplainConnection(err))
		r.last.Store(&err)
		return
	}
	r.last.Store(nil)
}

// lastError is the error of the last attempt; nil if it succeeded.
func (r *connectionErrors) lastError() error {
	if err := r.last.Load(); err != nil {
		return *err
	}
	return nil
}
