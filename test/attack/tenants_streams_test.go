//go:build unix

package attack_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.yaml.in/yaml/v3"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// onSockets are the operations of asyncapi.yaml that this test attacks. The others are of topics, which
// Kafka's ACLs protect.
var onSockets = []string{"subscribe", "watch", "beat", "greet"}

func TestNoStreamShowsUsersOfAnotherTenant(t *testing.T) {
	t.Parallel()
	h := newTenants(t)
	h.coversSockets()
	acme, nobodys := "acme", "acmx"
	for who, token := range h.callers {
		h.refused("a stream by "+who, token, request{"GET", "/presence/stream" + query(&acme, "user_ids", victim), "", ""},
			request{"GET", "/presence/stream" + query(&nobodys, "user_ids", victim), "", ""})
		h.refused("a socket by "+who, token, request{"GET", "/presence/connect" + query(&acme, "user_id", victim, "device_id", "d"), "", ""},
			request{"GET", "/presence/connect" + query(&nobodys, "user_id", victim, "device_id", "d"), "", ""})
	}
	mallory := h.callers["a user of evil"]
	for _, name := range []string{victim, h.users.ID("acme", victim).String()} {
		h.alike("a socket of "+name, mallory, request{"GET", "/presence/connect" + query(nil, "user_id", name, "device_id", "d"), "", ""},
			request{"GET", "/presence/connect" + query(nil, "user_id", absent, "device_id", "d"), "", ""}, name, absent)
	}

	bob := func(tenant string) string {
		return issued(t, auth.Caller{Name: schemas.Name{Text: "bob"}, Tenant: tenant, Scopes: []string{auth.Beat, auth.Read}})
	}
	watched := []string{victim, absent, h.users.ID("acme", victim).String(), "marker"}
	evil := map[string]*heard{
		"the stream":           h.listen(mallory, "/presence/stream", watched),
		"a stream of bob":      h.listen(bob("evil"), "/presence/stream?deliveries=true", watched),
		"a socket":             h.listen(mallory, "/presence/connect?device_id=d", watched),
		"a gateway's stream":   h.listen(h.callers["a gateway of evil"], "/presence/stream", watched),
		"an administrator's":   h.listen(h.callers["an administrator of evil"], "/presence/stream", watched),
		"server-sent events":   h.events(mallory, watched),
		"the default tenant's": h.listen(issued(t, auth.Caller{Name: schemas.Name{Text: "mallory"}, Scopes: []string{auth.Read}}), "/presence/stream", watched),
	}
	own := h.listen(bob("acme"), "/presence/stream?deliveries=true", []string{victim})
	own.await(`"type":"snapshot"`)
	h.beat("acme", "bob", false) // deliveries are for followers who are online
	for name, stream := range evil {
		if snapshot := stream.await(`"users":[`); strings.Count(snapshot, `"state":"offline"`) < len(watched) {
			t.Errorf("%s begins with %s", name, snapshot)
		}
	}
	h.beat("acme", victim, true)
	delivered := false
	for i := 0; !delivered && i < 15; i++ { // fan-out may hear a moment later that bob is online
		h.beat("acme", victim, i%2 == 1)
		for expanded := time.After(time.Second); !delivered && expanded != nil; { // once a second
			select {
			case message := <-own.messages:
				delivered = strings.Contains(message, `"type":"delivery"`)
			case <-expanded:
				expanded = nil
			}
		}
	}
	if !delivered {
		t.Error("a follower received no delivery: this test does not see what it attacks")
	}
	h.beat("evil", "marker", false)
	h.beat("", "marker", false)
	for name, stream := range evil {
		for _, message := range stream.until(`"state":"online"`) {
			if strings.Contains(message, `"type":"delivery"`) || strings.Contains(message, `"type":"change"`) && !strings.Contains(message, `"state":"online"`) {
				t.Errorf("%s shows %s", name, message)
			}
		}
	}
}

// heard are the messages of a stream.
type heard struct {
	*testing.T
	messages chan string
}

// await is the next message with a part.
func (s *heard) await(part string) string {
	s.Helper()
	all := s.until(part)
	return all[len(all)-1]
}

// until are the messages up to the next one with a part.
func (s *heard) until(part string) (all []string) {
	s.Helper()
	limit := time.After(20 * time.Second)
	for {
		select {
		case m, open := <-s.messages:
			if !open {
				s.Fatalf("the stream ended before %s, after %q", part, all)
			}
			if all = append(all, m); strings.Contains(m, part) {
				return all
			}
		case <-limit:
			s.Fatalf("no %s in 20 s, only %q", part, all)
		}
	}
}

// listen opens a stream or a socket and watches users.
func (h *tenants) listen(token, path string, names []string) *heard {
	h.Helper()
	conn, _, err := websocket.Dial(h.Context(), "ws://"+h.Listen+path, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}}) //nolint:bodyclose // a socket has none
	must.Do(h.T, err)
	conn.SetReadLimit(1 << 20)
	must.Do(h.T, conn.Write(h.Context(), websocket.MessageText, []byte(asJSON(map[string]any{"type": "subscribe", "user_ids": names}))))
	return h.reading(func(ctx context.Context) (string, error) {
		_, text, err := conn.Read(ctx)
		return string(text), err
	}, func() { _ = conn.CloseNow() })
}

// events is listen with Server-Sent Events.
func (h *tenants) events(token string, names []string) *heard {
	h.Helper()
	var users []string
	for _, name := range names {
		users = append(users, "user_ids", name)
	}
	ctx, cancel := context.WithCancel(h.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.Listen+"/presence/stream"+query(nil, users...), nil)
	must.Do(h.T, err)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", "text/event-stream")
	answer := must.Get(new(http.Client).Do(request))(h.T)
	buffer := make([]byte, 1<<16)
	return h.reading(func(context.Context) (string, error) {
		n, err := answer.Body.Read(buffer)
		return string(buffer[:n]), err
	}, func() { cancel(); _ = answer.Body.Close() })
}

func (h *tenants) reading(next func(context.Context) (string, error), end func()) *heard {
	s := &heard{h.T, make(chan string, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.messages)
		for {
			text, err := next(ctx)
			if err != nil {
				return
			}
			s.messages <- text
		}
	}()
	h.Cleanup(func() { cancel(); end(); <-done })
	return s
}

// coversSockets checks that onSockets has the operations of asyncapi.yaml that are not of topics.
func (h *tenants) coversSockets() {
	h.Helper()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "schemas", "asyncapi.yaml")))(h.T)
	var document struct {
		Channels map[string]struct {
			Address string
		}
		Operations map[string]struct {
			Channel struct {
				Ref string `yaml:"$ref"`
			}
		}
	}
	must.Do(h.T, yaml.Unmarshal(text, &document))
	found := 0
	for name, operation := range document.Operations {
		channel := document.Channels[operation.Channel.Ref[strings.LastIndexByte(operation.Channel.Ref, '/')+1:]]
		if !strings.HasPrefix(channel.Address, "/") {
			continue
		}
		if found++; !slices.Contains(onSockets, name) {
			h.Errorf("%s is in asyncapi.yaml, and this test does not attack it", name)
		}
	}
	if found != len(onSockets) {
		h.Errorf("%d operations on sockets are in asyncapi.yaml, and this test attacks %d", found, len(onSockets))
	}
}
