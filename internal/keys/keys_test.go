package keys_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/internal/testkit/keystest"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

// serve shakes hands with whoever connects.
func serve(t *testing.T, config *tls.Config) (addr string) {
	t.Helper()
	l := must.Get(tls.Listen("tcp", "127.0.0.1:0", config))(t)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				_ = conn.(*tls.Conn).HandshakeContext(t.Context()) // the client tells what is wrong
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return l.Addr().String()
}

func TestAnAuthorityThatIsReplacedInItsFileIsTrustedForTheNextConnection(t *testing.T) {
	t.Parallel()
	before, after := keystest.New(t), keystest.New(t)
	server := serve(t, after.Server(after.Issue("server", time.Hour), nil))
	file := filepath.Join(t.TempDir(), "ca.pem")
	put := func(a *keystest.Authority) {
		pem := must.Get(os.ReadFile(a.CA))(t)
		must.Do(t, os.WriteFile(file, pem, 0o600))
	}
	dial := keys.TLS{CA: file}.Dialer(nil)
	put(before)
	if _, err := dial(t.Context(), "tcp", server); err == nil || !strings.Contains(err.Error(), "not trusted") {
		t.Fatalf("under the authority of before: %v", err)
	}
	put(after)
	conn := must.Get(dial(t.Context(), "tcp", server))(t)
	_ = conn.Close()
}

func TestTheHostThatIsConnectedToMustBeInTheCertificate(t *testing.T) {
	t.Parallel()
	a := keystest.New(t)
	_, port, _ := net.SplitHostPort(serve(t, a.Server(a.Issue("server.example", time.Hour), nil)))
	for host, good := range map[string]bool{"127.0.0.1": true, "localhost": true, "127.0.0.2": false} {
		under := func(addr string) string { return net.JoinHostPort(addr, port) }
		dial := keys.TLS{CA: a.CA}.Dialer(redirect(under("127.0.0.1")))
		conn, err := dial(t.Context(), "tcp", under(host))
		if (err == nil) != good {
			t.Errorf("%s: %v", host, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}

func TestFilesThatCannotWorkAreFoundBeforeConnecting(t *testing.T) {
	t.Parallel()
	a := keystest.New(t)
	old, good := a.Issue("me", -time.Minute), a.Issue("me", time.Hour)
	for want, files := range map[string]keys.TLS{
		"no such file":               {CA: "/nowhere/ca.pem"},
		"has no certificate":         {CA: good.Key},
		"go together":                {Cert: good.Cert},
		"expired at":                 {Cert: old.Cert, Key: old.Key},
		"private key does not match": {Cert: good.Cert, Key: old.Key},
	} {
		if err := files.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got: %v", want, err)
		}
	}
	must.Do(t, (keys.TLS{CA: a.CA, Cert: good.Cert, Key: good.Key}).Check())
}

func TestATokenIsAskedForOnceUntilShortlyBeforeItsEnd(t *testing.T) {
	t.Parallel()
	asked := 0
	life := 3600
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		user, password, _ := r.BasicAuth()
		if user != "detector" || password != "s%3Ccret" || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "kafka" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client","error_description":"no such client"}`)
			return
		}
		fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"bearer","expires_in":%d}`, asked, life)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(file, []byte("wrong\n"), 0o600))
	c := &keys.ClientCredentials{URL: server.URL, ClientID: "detector", Secret: keys.Secret{File: file}, Scope: "kafka"}
	if _, err := c.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "invalid_client no such client") {
		t.Fatalf("with a wrong secret: %v", err)
	}
	must.Do(t, os.WriteFile(file, []byte("s<cret\n"), 0o600))
	for range 3 {
		if token, err := c.Token(t.Context()); err != nil || token != "token-2" {
			t.Fatal(token, err)
		}
	}
}

func TestASecretIsNotInWhatIsLogged(t *testing.T) {
	t.Parallel()
	if said := fmt.Sprintf("%v %s %+v", keys.Secret{Value: "swordfish"}, keys.Secret{Value: "swordfish"}, struct{ S keys.Secret }{keys.Secret{Value: "swordfish"}}); strings.Contains(said, "swordfish") {
		t.Error(said)
	}
}

// redirect is a network in which every address leads to addr.
func redirect(addr string) func(ctx context.Context, network, asked string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}

func TestASecretThatOthersMayWriteOrReplaceIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, folder os.FileMode
		taken        bool
	}{
		"own":                      {0o600, 0o700, true},
		"readable":                 {0o644, 0o755, true},
		"mounted":                  {0o440, 0o755, true},
		"in a sticky folder":       {0o600, 0o777 | os.ModeSticky, true},
		"the group may write":      {0o660, 0o700, false},
		"everybody may write":      {0o602, 0o700, false},
		"everybody may replace it": {0o600, 0o777, false},
	} {
		folder := filepath.Join(t.TempDir(), "secrets")
		must.Do(t, os.Mkdir(folder, 0o700))
		file := filepath.Join(folder, "secret")
		link := filepath.Join(t.TempDir(), "link") // as Kubernetes mounts them
		must.Do(t, errors.Join(os.WriteFile(file, []byte("hush"), 0o600), os.Chmod(file, c.file), os.Chmod(folder, c.folder), os.Symlink(file, link)))
		value, err := keys.Secret{File: file}.Read()
		if (err == nil) != c.taken || c.taken && value != "hush" || !c.taken && !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %q, %v", name, value, err)
		}
		if _, err := (keys.Secret{File: link}).Read(); c.folder != 0o777 && (err == nil) != c.taken {
			t.Errorf("%s, by a link: %v", name, err)
		}
	}
}
