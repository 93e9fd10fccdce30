package channel

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stillhere/stillhere/internal/redact"
)

// The headers of a webhook's request besides those of CloudEvents.
const (
	// SignatureHeader holds "t=UNIX SECONDS,v1=HEX": the HMAC-SHA256 of the seconds,
	// a dot and the body, keyed with the secret.
	SignatureHeader = "Stillhere-Signature"
	// IdempotencyHeader is the same for every try of one notice.
	IdempotencyHeader = "Idempotency-Key"
)

// EventType is the CloudEvents type of a notice.
const EventType = "stillhere.presence.changed.v1"

// Webhook posts every notice to a URL: a CloudEvent in binary mode, whose data is
// a Message with up to 1,000 recipients. 2xx is done; 408, 425, 429, 5xx and
// silence are tried again, after Retry-After if given, in seconds or as a date, but
// within Config.MaxWait; everything else is refused for good.
type Webhook struct {
	url, source string
	shown       string // the URL in logs and errors
	dial        *net.Dialer
	secret      []byte
	client      *http.Client
	now         func() time.Time
}

// idleConns is how many connections to the receiver are kept: with two, as net/http
// would have it, most deliveries that are under way at the same time make one anew.
const idleConns = 64

// minSecret is how many bytes a secret has at least: as many as the hash.
const minSecret = 32

// WebhookConfig says where to post and how.
type WebhookConfig struct {
	URL    string
	Source string // the CloudEvents source
	// Secret signs, with at least 32 bytes; none: nothing is signed, of which log is
	// warned.
	Secret []byte
	// LinkLocal allows link-local addresses and those of clouds' metadata services. Where
	// a proxy is set (HTTPS_PROXY), it is the proxy that resolves the receiver's name.
	LinkLocal bool
	// Client nil is one that follows no redirects. LinkLocal says nothing of another.
	Client *http.Client
}

// NewWebhook makes one.
func NewWebhook(config WebhookConfig, log *slog.Logger) (*Webhook, error) {
	to, source, secret, client := config.URL, config.Source, config.Secret, config.Client
	shown := redact.URL(to)
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("url: %q must be http://… or https://…", shown)
	}
	if s, err := url.Parse(source); err != nil || source == "" || s.String() != source {
		return nil, fmt.Errorf("source: %q must be a URI or a path, such as /stillhere", source)
	}
	if len(secret) > 0 && len(secret) < minSecret {
		return nil, fmt.Errorf("secret: must have at least %d bytes, has %d; `openssl rand -hex 32` makes one", minSecret, len(secret))
	}
	if len(secret) == 0 {
		log.Warn("the webhook is not signed, so its receiver cannot tell our requests from others'; set a secret", "url", shown)
	}
	if literal, err := netip.ParseAddr(u.Hostname()); err == nil && !config.LinkLocal {
		if err := mayReach(literal); err != nil {
			return nil, err
		}
	}
	dial := dialer(config.LinkLocal)
	if client == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.DialContext = dial.DialContext
		transport.MaxIdleConnsPerHost = idleConns
		client = &http.Client{Transport: transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &Webhook{url: to, shown: shown, dial: dial, source: source, secret: secret, client: client, now: time.Now}, nil
}

// Deliver posts n.
func (w *Webhook) Deliver(ctx context.Context, n Notice) error {
	body, err := json.Marshal(MessageOf(n))
	if err != nil {
		return Permanent(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return Permanent(redact.Error(err))
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "stillhere",
		"Ce-Specversion": "1.0", "Ce-Id": n.ID, "Ce-Source": w.source, "Ce-Type": EventType,
		"Ce-Time": n.Transition.At.String(), "Ce-Subject": n.Transition.User.String(),
		IdempotencyHeader: n.ID,
	} {
		request.Header.Set(name, value)
	}
	if len(w.secret) > 0 {
		request.Header.Set(SignatureHeader, Sign(w.secret, w.now(), body))
	}
	response, err := w.client.Do(request)
	if err != nil {
		return fmt.Errorf("posting to %s: %w", w.shown, withoutURL(err))
	}
	defer func() { _ = response.Body.Close() }()
	// What is left unread would cost the connection.
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	return w.judge(response)
}

// withoutURL drops the request's URL, which the message names already.
func withoutURL(err error) error {
	var inner *url.Error
	if errors.As(err, &inner) {
		return inner.Err
	}
	return err
}

func (w *Webhook) judge(r *http.Response) error {
	code := r.StatusCode
	err := fmt.Errorf("posting to %s: answered %s", w.shown, r.Status)
	switch {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusRequestTimeout || code == http.StatusTooEarly || code == http.StatusTooManyRequests || code >= 500:
		if wait := w.retryAfter(r.Header.Get("Retry-After")); wait > 0 {
			return After(wait, err)
		}
		return err
	}
	return Permanent(err)
}

// retryAfter reads the header, seconds or a date (RFC 9110, 10.2.3); 0 when it asks for
// nothing.
func (w *Webhook) retryAfter(value string) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(seconds, 0), maxRetryAfter)) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(at.Sub(w.now()), 0)
}

// maxRetryAfter keeps seconds within what a time.Duration holds.
const maxRetryAfter = 1 << 30

// Sign is the value of SignatureHeader for a body sent at that time.
func Sign(secret []byte, at time.Time, body []byte) string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(sum(secret, seconds, body))
}

func sum(secret []byte, seconds string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(seconds + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

// ErrSignature says that a signature does not fit, or is too old.
var ErrSignature = errors.New("the signature does not fit the body and the secret, or is too old")

// Verify is what a receiver does: it tells whether signature, the value of
// SignatureHeader, was made with secret for body, not longer than maxAge before or
// after now.
func Verify(secret []byte, signature string, body []byte, now time.Time, maxAge time.Duration) error {
	var seconds string
	var given []byte
	for part := range strings.SplitSeq(signature, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "t":
			seconds = value
		case "v1":
			given, _ = hex.DecodeString(value) // what cannot be read does not fit
		}
	}
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || !hmac.Equal(given, sum(secret, seconds, body)) || now.Sub(time.Unix(at, 0)).Abs() > maxAge {
		return ErrSignature
	}
	return nil
}
