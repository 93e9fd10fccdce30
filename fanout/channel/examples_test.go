package channel

import (
	"bufio"
	"bytes"
	"log/slog"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// What sender and receiver share, and what another believes that they do.
const (
	shared = "0123456789abcdef0123456789abcdef"
	forged = "fedcba9876543210fedcba9876543210"
)

func TestTheExamplesDeliverToEachRecipientOnceAndRefuseForgeries(t *testing.T) {
	t.Parallel()
	goBinary := t.TempDir() + "/receiver"
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", goBinary, "./examples/receiver").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, command := range map[string][]string{
		"go":     {goBinary, "-listen", "127.0.0.1:0", "-secret", shared},
		"python": {"python3", "examples/receiver.py", "127.0.0.1:0", shared},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(command[0]); err != nil {
				t.Skipf("%s is not installed", command[0])
			}
			tryExample(t, exec.CommandContext(t.Context(), command[0], command[1:]...))
		})
	}
}

// replay posts what was posted before, with its signature and another key: whoever has
// seen a request could.
func replay(t *testing.T, client *http.Client, url string, n schemas.Notice) {
	t.Helper()
	body := must.Get(n.Body())(t)
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body)))(t)
	request.Header.Set(schemas.SignatureHeader, schemas.SignNotice([]byte(shared), time.Now(), body))
	request.Header.Set(schemas.IdempotencyHeader, "another")
	answer := must.Get(client.Do(request))(t)
	answer.Body.Close()
}

func tryExample(t *testing.T, example *exec.Cmd) {
	t.Helper()
	out := must.Get(example.StdoutPipe())(t)
	var faults bytes.Buffer
	example.Stderr = &faults
	must.Do(t, example.Start())
	defer func() { _ = example.Process.Kill(); _ = example.Wait() }()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("it said nothing: %s", faults.String())
	}
	_, url, _ := strings.Cut(lines.Text(), "listening on ")
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	n := notice("1", "2")
	for _, secret := range []string{forged, shared, shared} {
		hook, err := NewWebhook(WebhookConfig{Private: true, URL: url, Source: "/here", Secret: []byte(secret), Client: client}, slog.New(slog.DiscardHandler))
		must.Do(t, err)
		if err := hook.Deliver(t.Context(), n); delivery.IsPermanent(err) != (secret == forged) || err != nil && secret != forged {
			t.Fatalf("with secret %s: %v", secret, err)
		}
	}
	replay(t, client, url, n)
	n.ID, n.Recipients = "y", []string{"3"}
	hook, _ := NewWebhook(WebhookConfig{Private: true, URL: url, Source: "/here", Secret: []byte(shared), Client: client}, slog.New(slog.DiscardHandler))
	must.Do(t, hook.Deliver(t.Context(), n))
	for _, want := range []string{"tell 1: user 7 is online", "tell 2: user 7 is online", "tell 3: user 7 is online"} {
		if !lines.Scan() || lines.Text() != want {
			t.Errorf("it said %q, want %q; %s", lines.Text(), want, faults.String())
		}
	}
}
