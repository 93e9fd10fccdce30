// Package keystest makes certificate authorities and certificates for tests.
package keystest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// Authority signs certificates of one test.
type Authority struct {
	tb   testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// CA is the file with its certificate.
	CA string
}

// New makes an authority.
func New(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{tb: tb}
	a.key = newKey(tb)
	template := &x509.Certificate{
		SerialNumber: serial(tb), Subject: pkix.Name{CommonName: "authority of " + tb.Name()},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	must.Do(tb, err)
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	a.CA = filepath.Join(tb.TempDir(), "ca.pem")
	write(tb, a.CA, "CERTIFICATE", der)
	return a
}

// Pool holds the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Pair is a certificate and its key, and the files that hold them.
type Pair struct{ Cert, Key string }

// Issue makes a certificate for name, the loopback and localhost, good for life
// (negative: expired).
func (a *Authority) Issue(name string, life time.Duration) Pair {
	a.tb.Helper()
	dir := a.tb.TempDir()
	p := Pair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	a.Renew(p, name, life)
	return p
}

// Renew writes another certificate into the files of p.
func (a *Authority) Renew(p Pair, name string, life time.Duration) {
	a.tb.Helper()
	key := newKey(a.tb)
	template := &x509.Certificate{
		SerialNumber: serial(a.tb), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
		DNSNames: []string{"localhost", name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key))(a.tb)
	keyDER := must.Get(x509.MarshalPKCS8PrivateKey(key))(a.tb)
	write(a.tb, p.Key, "PRIVATE KEY", keyDER)
	write(a.tb, p.Cert, "CERTIFICATE", der)
}

// Server is the side of a server that reads the files of p for each handshake;
// with clients not nil it demands certificates of that authority.
func (a *Authority) Server(p Pair, clients *Authority) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(p.Cert, p.Key)
		return &pair, err
	}}
	if clients != nil {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, clients.Pool()
	}
	return c
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	return must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(tb)
}

func serial(tb testing.TB) *big.Int {
	tb.Helper()
	return must.Get(rand.Int(rand.Reader, big.NewInt(1<<62)))(tb)
}

func write(tb testing.TB, path, kind string, der []byte) {
	tb.Helper()
	must.Do(tb, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}
