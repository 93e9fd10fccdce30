package channel

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func item(offset int64, user schemas.UserID, version schemas.Version, recipients ...schemas.UserID) Item {
	t := &schemas.Transition{User: user, From: schemas.Offline, To: schemas.Online, At: 1_763_700_000_000, Cause: schemas.FirstBeat,
		Kinds: schemas.SetOfKinds(schemas.Mobile), Visibility: schemas.Everyone, Version: version}
	return Item{&schemas.Delivery{Transition: t, Recipients: recipients}, schemas.Record{Partition: 3, Offset: offset}}
}

// fake is a channel that does what it is told.
type fake struct {
	mu    sync.Mutex
	told  []Notice
	tries []time.Time
	fail  func(Notice) error
}

func (f *fake) Deliver(_ context.Context, n Notice) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries = append(f.tries, time.Now())
	if f.fail != nil {
		if err := f.fail(n); err != nil {
			return err
		}
	}
	f.told = append(f.told, n)
	return nil
}

type letters struct{ reasons []error }

func (l *letters) setAside(_ context.Context, _ *schemas.Record, reason error) error {
	l.reasons = append(l.reasons, reason)
	return nil
}

func consumer(t *testing.T, config Config, c Channel) (*Consumer, *letters) {
	t.Helper()
	l := &letters{}
	made, err := NewConsumer(config, c, l.setAside, NewMetrics(nil), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return made, l
}

func batch(items ...Item) schemas.Batch[Item] { return schemas.Batch[Item]{Partition: 3, Items: items} }

var errAway = errors.New("nobody answers")

func TestARecipientIsToldEachVersionOnceAndNoneOlder(t *testing.T) {
	t.Parallel()
	f := &fake{}
	c, _ := consumer(t, Defaults(), f)
	for _, b := range []schemas.Batch[Item]{
		batch(item(1, 7, 10, 1, 2), item(2, 7, 10, 2, 3), item(3, 8, 10, 1)),
		batch(item(1, 7, 10, 1, 2), item(4, 7, 9, 1, 4), item(5, 7, 11, 1)),
	} {
		if err := c.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string][]schemas.UserID{}
	for _, n := range f.told {
		key := fmt.Sprintf("%d@%d", n.Transition.User, n.Transition.Version)
		got[key] = append(got[key], n.Recipients...)
	}
	for key, want := range map[string][]schemas.UserID{"7@10": {1, 2, 3}, "8@10": {1}, "7@9": {4}, "7@11": {1}} {
		if !slices.Equal(got[key], want) {
			t.Errorf("%s: %v, want %v", key, got[key], want)
		}
	}
}

func TestADeliveryIsTriedWithGrowingPausesAndThenSetAside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{fail: func(n Notice) error {
			if n.Transition.User == 7 {
				return errAway
			}
			return nil
		}}
		config := Defaults()
		config.Attempts, config.MaxWait = 5, time.Second
		c, l := consumer(t, config, f)
		c.jitter = func(d time.Duration) time.Duration { return d }
		begun := time.Now()
		if err := c.Apply(t.Context(), batch(item(1, 7, 10, 1), item(2, 8, 10, 1))); err != nil {
			t.Fatal(err)
		}
		if len(l.reasons) != 1 || !errors.Is(l.reasons[0], errAway) || !strings.Contains(l.reasons[0].Error(), "5 times") {
			t.Errorf("set aside: %v", l.reasons)
		}
		if took := time.Since(begun); took != 2400*time.Millisecond {
			t.Errorf("five tries took %s, want 0.2+0.4+0.8+1 s", took)
		}
		if len(f.told) != 1 || f.told[0].Transition.User != 8 {
			t.Errorf("told: %v", f.told)
		}
	})
}

func TestWhatIsRefusedForGoodIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	f := &fake{fail: func(Notice) error { return Permanent(errAway) }}
	c, l := consumer(t, Defaults(), f)
	if err := c.Apply(t.Context(), batch(item(1, 7, 10, 1))); err != nil || len(l.reasons) != 1 || len(f.tries) != 1 {
		t.Errorf("%v, %d set aside, %d tries", err, len(l.reasons), len(f.tries))
	}
}

func TestAfterAStopTheSameBatchGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{}
	f.fail = func(n Notice) error {
		if n.Transition.User == 15 {
			cancel()
			return errAway
		}
		return nil
	}
	c, l := consumer(t, Defaults(), f)
	b := batch(item(1, 7, 10, 1), item(2, 15, 10, 1)) // of one lane
	if err := c.Apply(ctx, b); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	f.fail = nil
	if err := c.Apply(t.Context(), b); err != nil || len(f.told) != 2 || len(l.reasons) != 0 {
		t.Errorf("%v, told %d times, %d set aside", err, len(f.told), len(l.reasons))
	}
}

func TestDeliveriesKeepToTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := Defaults()
		config.Rate = 10
		c, _ := consumer(t, config, &fake{})
		var items []Item
		for i := range 21 {
			items = append(items, item(int64(i), schemas.UserID(i+1), 10, 1))
		}
		begun := time.Now()
		if err := c.Apply(t.Context(), batch(items...)); err != nil || time.Since(begun) != 2*time.Second {
			t.Errorf("21 deliveries at 10 a second took %s, %v", time.Since(begun), err)
		}
	})
}

func TestAWebhookIsASignedCloudEventThatKeepsItsKey(t *testing.T) {
	t.Parallel()
	secret := []byte("s3cret")
	answers := []int{http.StatusServiceUnavailable, http.StatusNoContent}
	keys := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := Verify(secret, r.Header.Get(SignatureHeader), body, time.Now(), time.Minute); err != nil {
			t.Error(err)
		}
		for name, want := range map[string]string{"Ce-Specversion": "1.0", "Ce-Type": EventType, "Ce-Source": "/here", "Ce-Subject": "7",
			"Ce-Time": "2025-11-21T04:40:00.000Z", "Content-Type": "application/json"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if id := r.Header.Get("Ce-Id"); id == "" || id != r.Header.Get(IdempotencyHeader) {
			t.Errorf("id %q, key %q", id, r.Header.Get(IdempotencyHeader))
		}
		var m Message
		if err := json.Unmarshal(body, &m); err != nil || m.UserID != 7 || m.State != "online" || !slices.Equal(m.Recipients, []string{"1", "2"}) {
			t.Errorf("%s: %v", body, err)
		}
		keys[r.Header.Get(IdempotencyHeader)]++
		w.WriteHeader(answers[0])
		answers = answers[1:]
	}))
	defer server.Close()
	hook, err := NewWebhook(server.URL, "/here", secret, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	config := Defaults()
	config.FirstWait = time.Millisecond
	c, l := consumer(t, config, hook)
	if err := c.Apply(t.Context(), batch(item(1, 7, 10, 1, 2))); err != nil || len(l.reasons) != 0 || len(keys) != 1 || len(answers) != 0 {
		t.Errorf("%v, set aside %v, keys %v", err, l.reasons, keys)
	}
}

func TestAnAnswerSaysWhetherToTryAgain(t *testing.T) {
	t.Parallel()
	for code, final := range map[int]bool{200: false, 204: false, 301: true, 400: true, 401: true, 404: true, 410: true, 408: false, 429: false, 500: false, 503: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Location", "/")
			w.WriteHeader(code)
		}))
		hook, err := NewWebhook(server.URL, "/here", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		i := item(1, 7, 10, 1)
		err = hook.Deliver(t.Context(), Notice{ID: "x", Transition: i.Delivery.Transition, Recipients: i.Delivery.Recipients})
		var refused *permanent
		var later *after
		if code < 300 != (err == nil) || errors.As(err, &refused) != final || errors.As(err, &later) != (err != nil && !final) {
			t.Errorf("%d: %v", code, err)
		}
		server.Close()
		hook.client.CloseIdleConnections()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	}
}

func TestASignatureFitsOneBodyOneSecretAndOneTime(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_763_700_000, 0)
	good := Sign([]byte("s"), now, []byte("body"))
	for name, err := range map[string]error{
		"another body":   Verify([]byte("s"), good, []byte("body2"), now, time.Minute),
		"another secret": Verify([]byte("z"), good, []byte("body"), now, time.Minute),
		"too late":       Verify([]byte("s"), good, []byte("body"), now.Add(2*time.Minute), time.Minute),
		"too early":      Verify([]byte("s"), good, []byte("body"), now.Add(-2*time.Minute), time.Minute),
		"another time":   Verify([]byte("s"), strings.Replace(good, "t=1", "t=2", 1), []byte("body"), now, time.Minute),
		"none":           Verify([]byte("s"), "", []byte("body"), now, time.Minute),
		"garbage":        Verify([]byte("s"), "t=1,v1=zz,,=", []byte("body"), now, time.Minute),
	} {
		if !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Verify([]byte("s"), good, []byte("body"), now, time.Minute); err != nil {
		t.Error(err)
	}
}

func TestTheLogIsALineForEachNotice(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c, _ := consumer(t, Defaults(), NewLog(&out))
	if err := c.Apply(t.Context(), batch(item(1, 7, 10, 1, 2))); err != nil {
		t.Fatal(err)
	}
	var m Message
	if err := json.Unmarshal(out.Bytes(), &m); err != nil || m.Version != "10" || len(m.Recipients) != 2 || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%q: %v", out.String(), err)
	}
}

func TestTheExamplesTellEachRecipientOnceAndRefuseForgeries(t *testing.T) {
	t.Parallel()
	goBinary := t.TempDir() + "/receiver"
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", goBinary, "./examples/receiver").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, command := range map[string][]string{
		"go":     {goBinary, "-listen", "127.0.0.1:0", "-secret", "s3cret"},
		"python": {"python3", "examples/receiver.py", "127.0.0.1:0", "s3cret"},
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

func tryExample(t *testing.T, example *exec.Cmd) {
	t.Helper()
	out, err := example.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var faults bytes.Buffer
	example.Stderr = &faults
	if err := example.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = example.Process.Kill(); _ = example.Wait() }()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("it said nothing: %s", faults.String())
	}
	_, url, _ := strings.Cut(lines.Text(), "listening on ")
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	i := item(1, 7, 10, 1, 2)
	n := Notice{ID: "x", Transition: i.Delivery.Transition, Recipients: i.Delivery.Recipients}
	for _, secret := range []string{"forged", "s3cret", "s3cret"} {
		hook, err := NewWebhook(url, "/here", []byte(secret), client)
		if err != nil {
			t.Fatal(err)
		}
		var refused *permanent
		if err := hook.Deliver(t.Context(), n); errors.As(err, &refused) != (secret == "forged") || err != nil && secret != "forged" {
			t.Fatalf("with secret %s: %v", secret, err)
		}
	}
	n.ID, n.Recipients = "y", []schemas.UserID{3}
	hook, _ := NewWebhook(url, "/here", []byte("s3cret"), client)
	if err := hook.Deliver(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"tell 1: user 7 is online", "tell 2: user 7 is online", "tell 3: user 7 is online"} {
		if !lines.Scan() || lines.Text() != want {
			t.Errorf("it said %q, want %q; %s", lines.Text(), want, faults.String())
		}
	}
}
