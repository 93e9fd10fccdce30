package keys

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/internal/faults"
)

// handshakeTimeout bounds one connection attempt with its handshake.
const handshakeTimeout = 10 * time.Second

// Dial opens a connection. Kafka and Redis clients take it as their dialer.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// TLS names the files of a client's side of TLS, all in PEM.
type TLS struct {
	// CA has the trusted authorities; empty: the system's.
	CA string
	// Cert and Key are this client's, for mutual TLS; both or none.
	Cert, Key string
	// ServerName must be in the server's certificate; empty: the host of the address.
	ServerName string
}

// Check reports faults that are visible without a connection: files that are missing or invalid,
// and an expired client certificate.
func (t TLS) Check() error {
	_, err := t.config("")
	if err != nil || t.Cert == "" {
		return err
	}
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return err
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) {
		return fmt.Errorf("the certificate in %s expired at %s", t.Cert, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// CheckFlags is Check of the flags that begin with flag, such as --kafka-tls. on says whether
// TLS is asked for.
func (t TLS) CheckFlags(flag string, on bool) error {
	var all faults.List
	all.If(!on && t != (TLS{}), "%s-ca, -cert, -key and -server-name need %[1]s", flag)
	all.If((t.Cert == "") != (t.Key == ""), "%s-cert and %[1]s-key go together", flag)
	if on && len(all) == 0 {
		all.In(flag, t.Check())
	}
	return all.Err()
}

func (t TLS) config(host string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cmp.Or(t.ServerName, host)}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("reading the authorities to trust: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("reading the authorities to trust: %s has no certificate", t.CA)
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("a certificate and its key go together")
	}
	if t.Cert != "" {
		if _, err := ReadFile(t.Key); err != nil {
			return nil, fmt.Errorf("reading this client's key: %w", err)
		}
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("reading this client's certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Dialer connects through under (nil: the network) and performs the handshake with the current
// files.
func (t TLS) Dialer(under Dial) Dial {
	if under == nil {
		under = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		config, err := t.config(host)
		if err != nil {
			return nil, err
		}
		raw, err := under(ctx, network, address)
		if err != nil {
			return nil, err
		}
		asked := false
		if t.Cert == "" {
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				asked = true
				return new(tls.Certificate), nil
			}
		}
		conn := tls.Client(raw, config)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, fmt.Errorf("shaking hands with %s: %w", address, Explain(err))
		}
		if asked {
			return &uncertified{Conn: conn}, nil
		}
		return conn, nil
	}
}

// uncertified is a connection to a server that asked for a certificate and got none. In TLS 1.3 the server
// refuses after the client's handshake, and its alert may be lost with the connection (RFC 8446, section 4.4.2.4):
// until the first answer, an error says what is probably missing.
type uncertified struct {
	net.Conn
	answered atomic.Bool
}

func (u *uncertified) Read(p []byte) (int, error) {
	n, err := u.Conn.Read(p)
	if n > 0 {
		u.answered.Store(true)
	}
	return n, u.explain(err)
}

func (u *uncertified) Write(p []byte) (int, error) {
	n, err := u.Conn.Write(p)
	return n, u.explain(err)
}

func (u *uncertified) explain(err error) error {
	if err == nil || u.answered.Load() {
		return err
	}
	// Two errors are joined: go-redis would remove a single one's wrapping.
	return fmt.Errorf("%w: %w", err, errors.New("the server asked for a client certificate, and none is given"))
}

// Explain adds the remedy to an error of TLS. It returns other errors unchanged.
func Explain(err error) error {
	var (
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
		name    x509.HostnameError
		remote  *net.OpError
		plain   tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: the server's certificate comes from an authority that is not trusted; "+
			"name its file as the CA", err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w: renew the server's certificate, or set this machine's clock", err)
	case errors.As(err, &name):
		return fmt.Errorf("%w: connect by a name that the server's certificate has, or give the server name to expect", err)
	case errors.As(err, &plain):
		return fmt.Errorf("%w: the server does not speak TLS on this port", err)
	case errors.As(err, &remote) && remote.Op == "remote error":
		return fmt.Errorf("%w: the server refuses this client's certificate: "+
			"none given, expired, or of an authority it does not trust", err)
	}
	return err
}
