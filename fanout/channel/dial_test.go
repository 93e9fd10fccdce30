package channel

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// resolver answers every question about a name with address.
func resolver(t *testing.T, address netip.Addr) *net.Resolver {
	t.Helper()
	server := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	var work sync.WaitGroup
	work.Go(func() {
		buffer := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			end := 12 + bytes.IndexByte(buffer[12:n], 0) + 5 // of the question
			kind := binary.BigEndian.Uint16(buffer[end-4:])
			answer := append([]byte{}, buffer[:end]...)
			copy(answer[2:12], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
			if kind == 1 && address.Is4() || kind == 28 && address.Is6() {
				answer[7] = 1
				raw := address.AsSlice()
				answer = append(answer, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(raw)))
				answer = append(answer, raw...)
			}
			if _, err := server.WriteTo(answer, from); err != nil {
				return
			}
		}
	})
	t.Cleanup(func() { server.Close(); work.Wait() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

func TestANameThatLeadsToALinkLocalOrMetadataAddressIsNotDialed(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"169.254.169.254", "169.254.0.1", "fe80::1", "fd00:ec2::254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "100.100.100.200",
		"168.63.129.16", "::ffff:168.63.129.16", "64:ff9b::a83f:8110", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:ffff::1"} {
		to := netip.MustParseAddr(address)
		hook, err := NewWebhook(WebhookConfig{Private: true, URL: "http://receiver.test:80/", Source: "/here"}, slog.New(slog.DiscardHandler))
		must.Do(t, err)
		hook.dial.Resolver = resolver(t, to)
		if err := hook.Deliver(t.Context(), notice()); err == nil || !strings.Contains(err.Error(), "--allow-link-local") {
			t.Errorf("%s: %v", address, err)
		}
		if _, err := NewWebhook(WebhookConfig{Private: true, URL: "http://" + netip.AddrPortFrom(to, 80).String() + "/", Source: "/here"}, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s is taken in the URL", address)
		}
		allowed, err := NewWebhook(WebhookConfig{Private: true, URL: "http://receiver.test:80/", Source: "/here", LinkLocal: true}, slog.New(slog.DiscardHandler))
		if err != nil || allowed.dial.Control != nil {
			t.Errorf("%s: refused though it is allowed: %v", address, err)
		}
	}
}

func TestANameThatLeadsElsewhereIsDialed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	hook, err := NewWebhook(WebhookConfig{Private: true, URL: strings.Replace(server.URL, "127.0.0.1", "receiver.test", 1), Source: "/here"}, slog.New(slog.DiscardHandler))
	must.Do(t, err)
	defer hook.client.CloseIdleConnections()
	hook.dial.Resolver = resolver(t, netip.MustParseAddr("127.0.0.1"))
	if err := hook.Deliver(t.Context(), notice()); err != nil {
		t.Error(err)
	}
}

func TestNoMessageAboutAWebhookHasItsCredentials(t *testing.T) {
	t.Parallel()
	answer := http.StatusInternalServerError
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "hunter2" || r.URL.Query().Get("token") != "t0ken" {
			t.Error("the receiver does not get the credentials")
		}
		w.WriteHeader(answer)
	}))
	to := strings.Replace(server.URL, "://", "://admin:hunter2@", 1) + "/in?token=t0ken"
	var said bytes.Buffer
	hook, err := NewWebhook(WebhookConfig{Private: true, URL: to, Source: "/here"}, slog.New(slog.NewTextHandler(&said, nil)))
	must.Do(t, err)
	if !strings.Contains(said.String(), "not signed") || !strings.Contains(said.String(), server.URL+"/in") {
		t.Errorf("said of what is not signed: %q", said.String())
	}
	refused := hook.Deliver(t.Context(), notice())
	server.Close()
	away := hook.Deliver(t.Context(), notice())
	_, wrong := NewWebhook(WebhookConfig{Private: true, URL: "ftp://admin:hunter2@host/?token=t0ken", Source: "/here"}, slog.New(slog.DiscardHandler))
	for name, err := range map[string]error{"refused": refused, "away": away, "of another scheme": wrong} {
		if err == nil {
			t.Fatalf("%s: no error", name)
		}
		said.WriteString(err.Error())
	}
	if text := said.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "t0ken") || strings.Contains(text, "admin") {
		t.Errorf("credentials are told: %s", text)
	}
}

func TestASecretBelow32BytesIsRefused(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	for length, good := range map[int]bool{1: false, 31: false, 32: true, 64: true} {
		_, err := NewWebhook(WebhookConfig{Private: true, URL: "http://h/", Source: "/here", Secret: bytes.Repeat([]byte("x"), length)}, log)
		if (err == nil) != good {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
	if said.Len() != 0 {
		t.Errorf("said of a webhook that is signed: %s", said.String())
	}
}

func TestAReceiverThatATenantChoosesIsPublicUnlessTheOperatorSaysOtherwise(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1", "::1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.0.1", "100.64.0.1", "fd12::1",
		"::ffff:10.0.0.1", "64:ff9b::a00:1"} {
		to := netip.MustParseAddr(address)
		config := WebhookConfig{URL: "http://receiver.test:80/", Source: "/here"}
		hook := must.Get(NewWebhook(config, slog.New(slog.DiscardHandler)))(t)
		hook.dial.Resolver = resolver(t, to)
		if err := hook.Deliver(t.Context(), notice()); err == nil || !strings.Contains(err.Error(), "--allow-private") {
			t.Errorf("%s: %v", address, err)
		}
		config.URL = "http://" + netip.AddrPortFrom(to, 80).String() + "/"
		if _, err := NewWebhook(config, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s is taken in the URL", address)
		}
		config.Private = true
		if _, err := NewWebhook(config, slog.New(slog.DiscardHandler)); err != nil {
			t.Errorf("%s is refused though it is allowed: %v", address, err)
		}
	}
	if err := (reach{}).mayReach(netip.MustParseAddr("93.184.215.14")); err != nil {
		t.Error(err)
	}
}
