package stream

import (
	"crypto/tls"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Security is how a connection is encrypted and who it is from.
type Security struct {
	// TLS is nil for none. Give it GetClientCertificate to renew certificates
	// without a restart.
	TLS *tls.Config
	// Mechanism is "", PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	Mechanism      string
	User, Password string
}

func (s *Security) options() ([]kgo.Opt, error) {
	if s == nil {
		return nil, nil
	}
	var options []kgo.Opt
	if s.TLS != nil {
		options = append(options, kgo.DialTLSConfig(s.TLS))
	}
	var mechanism sasl.Mechanism
	switch s.Mechanism {
	case "":
		return options, nil
	case "PLAIN":
		mechanism = plain.Auth{User: s.User, Pass: s.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		mechanism = scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		mechanism = scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism()
	default:
		return nil, fmt.Errorf("SASL mechanism %q: must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", s.Mechanism)
	}
	return append(options, kgo.SASL(mechanism)), nil
}
