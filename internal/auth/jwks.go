package auth

import (
	"context"
	"crypto"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"

	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/internal/keys"
)

const (
	fetchTimeout = 10 * time.Second // of one fetch
	fetchEvery   = time.Hour
	// fetchPause is the least time between two fetches, so that forged key ids cannot cause
	// constant fetching. A new key works after it, at the latest.
	fetchPause = 10 * time.Second
	// retryFirst doubles with each fetch that fails, up to retryMost.
	retryFirst, retryMost = time.Second, time.Minute
	maxKeySet             = 1 << 20 // bytes
	// minRSA is what RFC 7518, section 3.3, asks for.
	minRSA = 2048 // bits
)

// jwks are the public keys of an issuer. Requests never wait for a fetch: keys come in
// the background, and an unknown one asks for a fetch soon. Any goroutine may use it.
type jwks struct {
	url   string
	log   *slog.Logger
	known atomic.Pointer[keyfunc.Keyfunc]
	asked chan struct{} // a token has an unknown key
	ended chan struct{} // closed when fetching has stopped
	stop  func()        // stops fetching
	first chan error    // has the result of the first fetch
}

// newKeys makes keys that are not known yet.
func newKeys(stop func()) *jwks {
	return &jwks{asked: make(chan struct{}, 1), ended: make(chan struct{}), stop: stop, first: make(chan error, 1)}
}

// watchKeys fetches the keys at url repeatedly until ctx ends or stop is called.
func watchKeys(ctx context.Context, url string, log *slog.Logger) *jwks {
	ctx, stop := context.WithCancel(ctx)
	k := newKeys(stop)
	k.url, k.log = url, log
	go k.run(ctx)
	return k
}

// keysOf reads the keys of a file, once.
func keysOf(file string) (*jwks, error) {
	text, err := keys.ReadFile(file)
	if err != nil {
		return nil, err
	}
	set, unusable, err := parseKeys(context.Background(), text)
	switch {
	case err != nil:
	case len(unusable) > 0:
		err = fmt.Errorf("%s has keys that cannot be used; remove them: %w", file, errors.Join(unusable...))
	case isEmpty(set):
		err = errNoneUsable
	}
	if err != nil {
		return nil, err
	}
	k := newKeys(func() {})
	k.known.Store(&set)
	k.first <- nil
	close(k.ended)
	return k, nil
}

func (k *jwks) run(ctx context.Context) {
	defer close(k.ended)
	retry := retryFirst
	for {
		err := k.fetch(ctx)
		select {
		case k.first <- err:
		default: // it was not the first, or nobody waits for it
		}
		wait := fetchEvery
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errNoneUsable):
			wait = retry
			retry = min(2*retry, retryMost)
			k.log.Error("the issuer has no key that can be used: all tokens are refused", "url", faults.URL(k.url), "again_in", wait)
		case err != nil:
			wait = retry
			retry = min(2*retry, retryMost)
			k.log.Warn("the keys for tokens cannot be fetched; the known ones stay valid", "url", faults.URL(k.url), "error", faults.Error(err), "again_in", wait)
		case retry > retryFirst:
			retry = retryFirst
			k.log.Info("the keys for tokens are fetched again", "url", faults.URL(k.url))
		}
		if !k.pause(ctx, wait, err == nil) {
			return
		}
	}
}

// pause waits until the next fetch is due: after wait or, where unknown keys may hurry it,
// when one is asked for and fetchPause is over. It returns false when ctx has ended.
func (k *jwks) pause(ctx context.Context, wait time.Duration, hurry bool) bool {
	due := time.NewTimer(wait)
	defer due.Stop()
	var asked chan struct{}
	if hurry {
		soon := time.NewTimer(fetchPause)
		defer soon.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-soon.C:
		}
		asked = k.asked
	}
	select {
	case <-ctx.Done():
		return false
	case <-due.C:
	case <-asked:
	}
	return true
}

func (k *jwks) fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxKeySet))
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answers %s", answer.Status)
	}
	set, unusable, err := parseKeys(ctx, text)
	if err != nil {
		return err
	}
	if len(unusable) > 0 {
		k.log.Warn("some keys cannot be used: tokens that are signed with them are refused", "url", faults.URL(k.url), "keys", len(unusable), "error", unusable[0])
	}
	k.known.Store(&set)
	if isEmpty(set) {
		return errNoneUsable
	}
	return nil
}

// errNoneUsable says that a key set was read and verifies nothing. An issuer that has withdrawn all its keys publishes one.
var errNoneUsable = errors.New("the key set has no key that can be used")

func isEmpty(set keyfunc.Keyfunc) bool {
	all, err := set.Storage().KeyReadAll(context.Background())
	return err == nil && len(all) == 0
}

// parseKeys reads a key set, which may be empty. unusable are the faults of keys that verify no token: those that are
// not understood or incomplete (RFC 7517, section 5), those for encryption, and RSA keys that
// are too short to be secure.
func parseKeys(ctx context.Context, text []byte) (set keyfunc.Keyfunc, unusable []error, err error) {
	var all struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, nil, fmt.Errorf("reading the key set: %w", err)
	}
	if all.Keys == nil {
		return nil, nil, errors.New("reading the key set: it has no keys")
	}
	if set, err = keyfunc.NewJWKSetJSON(json.RawMessage(`{"keys":[]}`)); err != nil {
		return nil, nil, err
	}
	good, err := set.Storage().KeyReadAll(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i, key := range all.Keys {
		one, err := keyfunc.NewJWKSetJSON(slices.Concat(json.RawMessage(`{"keys":[`), key, json.RawMessage(`]}`)))
		if err != nil {
			unusable = append(unusable, fmt.Errorf("keys[%d]: %w", i, err))
			continue
		}
		read, err := one.Storage().KeyReadAll(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, k := range read {
			switch {
			case k.Marshal().USE == "enc":
				unusable = append(unusable, fmt.Errorf("keys[%d]: is for encryption", i))
			case tooShort(k.Key()):
				unusable = append(unusable, fmt.Errorf("keys[%d]: is an RSA key of less than %d bits", i, minRSA))
			default:
				good = append(good, k)
			}
		}
	}
	return set, unusable, set.Storage().KeyReplaceAll(ctx, good)
}

func tooShort(key any) bool {
	if private, ok := key.(interface{ Public() crypto.PublicKey }); ok {
		key = private.Public()
	}
	public, ok := key.(*rsa.PublicKey)
	return ok && public.N.BitLen() < minRSA
}

// key returns the key that must have signed a token.
func (k *jwks) key(token *jwt.Token) (any, error) {
	set := k.known.Load()
	if set == nil {
		return nil, errNoKeys
	}
	return (*set).Keyfunc(token)
}

// ready is nil if there are keys.
func (k *jwks) ready(context.Context) error {
	if k.known.Load() == nil {
		return errNoKeys
	}
	return nil
}

// ask requests a fetch soon.
func (k *jwks) ask() {
	select {
	case k.asked <- struct{}{}:
	default:
	}
}
