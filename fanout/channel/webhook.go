package channel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/schemas"
)

// Webhook posts each notice to a URL: a CloudEvent in binary mode, whose data is Notice.Body. 2xx is success. After 408, 425, 429, 5xx and
// timeouts it tries again, after Retry-After if given (seconds or a date), but at most
// Config.MaxWait. Every other answer is permanent.
type Webhook struct {
	url, source string
	shown       string // the URL in logs and errors
	dial        *net.Dialer
	secret      []byte
	client      *http.Client
	now         func() time.Time
}

// idleConns is how many idle connections to the receiver stay open. With net/http's default of two,
// most concurrent deliveries would open a new one.
const idleConns = 64

// minSecret is the least length of a secret in bytes, that of the hash.
const minSecret = 32

// WebhookConfig says where to post and how.
type WebhookConfig struct {
	URL    string
	Source string // the CloudEvents source
	// Secret signs the requests; it has at least 32 bytes. Empty: requests are not signed, and a
	// warning is logged.
	Secret []byte
	// LinkLocal allows link-local addresses and those of clouds' metadata services. With a proxy
	// (HTTPS_PROXY) the proxy resolves the receiver's name.
	LinkLocal bool
	// Private allows private addresses and the loopback: the receiver is in the operator's own network. Where a tenant
	// chooses the URL it would lead into that network.
	Private bool
	// Client nil means one that follows no redirects. LinkLocal and Private have no effect on another client.
	Client *http.Client
}

// NewWebhook makes a Webhook.
func NewWebhook(config WebhookConfig, log *slog.Logger) (*Webhook, error) {
	to, source, secret, client := config.URL, config.Source, config.Secret, config.Client
	shown := faults.URL(to)
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
		log.Warn("webhook requests are not signed; the receiver cannot recognize them; set a secret", "url", shown)
	}
	of := reach{config.LinkLocal, config.Private}
	if literal, err := netip.ParseAddr(u.Hostname()); err == nil {
		if err := of.mayReach(literal); err != nil {
			return nil, err
		}
	}
	dial := of.dialer()
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
func (w *Webhook) Deliver(ctx context.Context, n schemas.Notice) error {
	body, err := n.Body()
	if err != nil {
		return delivery.Permanent(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return delivery.Permanent(faults.Error(err))
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "stillhere",
		"Ce-Specversion": "1.0", "Ce-Id": n.ID, "Ce-Source": w.source, "Ce-Type": n.Event(),
		"Ce-Time": n.Transition.At.String(), "Ce-Subject": subject(n.User.Text), "Ce-Tenant": n.User.Tenant,
		schemas.IdempotencyHeader: n.ID,
	} {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	if len(w.secret) > 0 {
		request.Header.Set(schemas.SignatureHeader, schemas.SignNotice(w.secret, w.now(), body))
	}
	response, err := w.client.Do(request)
	if err != nil {
		return fmt.Errorf("posting to %s: %w", w.shown, withoutURL(err))
	}
	defer func() { _ = response.Body.Close() }()
	// An unread body would prevent the connection from being used again.
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	return w.judge(response)
}

// subject is the CloudEvents subject: what the user is called, empty if it is not
// known. Like CloudEvents' HTTP binding (section 3.1.3.2) it percent-encodes what headers cannot hold.
func subject(name string) string {
	var encoded []byte
	for _, c := range []byte(name) {
		if c <= ' ' || c > '~' || c == '"' || c == '%' {
			encoded = fmt.Appendf(encoded, "%%%02X", c)
		} else {
			encoded = append(encoded, c)
		}
	}
	return string(encoded)
}

// withoutURL drops the request's URL, which the message has already.
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
			return delivery.After(wait, err)
		}
		return err
	}
	return delivery.Permanent(err)
}

// retryAfter reads the header, seconds or a date (RFC 9110, 10.2.3); 0 when it is empty or invalid.
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
