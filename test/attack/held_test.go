//go:build unix

package attack_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"
)

// An unauthenticated caller needs no token to be answered, and HTTP keeps the connection open after that.
func TestConnectionsThatAreKeptOpenBetweenRequestsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	h := attackedHouse(t, 800)
	for _, c := range []struct {
		address, path string
		most          int
	}{{h.Listen, "/openapi.yaml", 400}, {h.Admin, "/livez", 64}} {
		ask := []string{"GET " + c.path + " HTTP/1.1", "Host: " + c.address, "", ""}
		for range c.most + 20 {
			d := dialRaw(t, c.address)
			d.say(ask...)
			_, _, _ = d.answer(5 * time.Second) // who comes too late is refused
		}
		// They are kept for two minutes, unless somebody needs their place.
		var answer *http.Response
		var err error
		if !testkit.Within(20*time.Second, func() bool {
			d := dialRaw(t, c.address)
			d.say(ask...)
			answer, _, err = d.answer(5 * time.Second)
			return err == nil && answer.StatusCode == http.StatusOK
		}) {
			t.Errorf("who comes to %s is answered %v %v", c.path, answer, err)
		}
	}
}

func TestTheAsteriskFormIsAnsweredAsAnyOtherPath(t *testing.T) {
	t.Parallel()
	h := testkit.NewDev(t)
	h.Up()
	for _, address := range []string{h.Listen, h.Admin} {
		d, begun := dialRaw(t, address), time.Now()
		d.say("OPTIONS * HTTP/1.1", "Host: "+address, "Content-Length: 1000", "", "")
		if answer, _, err := d.answer(5 * time.Second); err != nil || !answer.Close || !d.closed(5*time.Second-time.Since(begun)) {
			t.Errorf("an unread body: %v %v after %s", answer, err, time.Since(begun))
		}
		d = dialRaw(t, address)
		d.say("OPTIONS * HTTP/1.1", "Host: evil.example", "", "")
		if answer, _, err := d.answer(5 * time.Second); err != nil || answer.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("for another host: %v %v", answer, err)
		}
	}
}

// TestARequestOfHTTP10WithTransferEncodingEndsItsConnection: RFC 9112, section 6.1.
func TestARequestOfHTTP10WithTransferEncodingEndsItsConnection(t *testing.T) {
	t.Parallel()
	h := testkit.NewDev(t)
	h.Up()
	const body = `{"beats":[{"user_id":"1","device_id":7}]}`
	for _, headers := range [][]string{{"Transfer-Encoding: chunked"}, {fmt.Sprint("Content-Length: ", len(body)), "Transfer-Encoding: chunked"}} {
		d := dialRaw(t, h.Listen)
		d.say(append(append([]string{"POST /presence/heartbeats HTTP/1.0", "Host: " + h.Listen, "Connection: keep-alive"}, headers...), "",
			body+"GET /presence/666 HTTP/1.1\r\nHost: "+h.Listen+"\r\n\r\n")...)
		answer, _, err := d.answer(5 * time.Second)
		if err != nil || !answer.Close {
			t.Errorf("%q: %v %v", headers, answer, err)
		}
		if second, text, err := d.answer(2 * time.Second); err == nil {
			t.Errorf("%q: what follows is answered %d %s", headers, second.StatusCode, text)
		}
	}
}

func TestNoPathLeadsAroundTheTokens(t *testing.T) {
	t.Parallel()
	h := attackedHouse(t, 0)
	for _, request := range []string{
		"GET //presence/1", "GET /presence//1", "GET /./presence/1", "GET /x/../presence/1", "GET /%70resence/1", "GET /presence%2F1", "GET /presence/1/",
		"GET /presence/1%2Fhistory", "GET /presence/%31", "GET /PRESENCE/1", "GET /presence;x/1", "GET /presence/1;x", "GET \\presence\\1", "HEAD /presence/1",
		"CONNECT /presence/1", "CONNECT /x/../presence/1", "TRACE /presence/1", "GET http://" + h.Listen + "/presence/1", "GET http://x//presence/1", "OPTIONS /presence/1",
		"POST /presence/1", "GET /presence/1?access_token=x", "GET /presence/batch/?user_ids=1", "GET /presence/stream/?user_ids=1", "GET /presence/stream%2f?user_ids=1",
		"GET /presence/./stream?user_ids=1", "GET /presence/..;/presence/1", "PUT /presence/1/visibility/", "PUT //presence/1/visibility", "CONNECT //presence/1",
	} {
		d := dialRaw(t, h.Listen)
		d.say(request+" HTTP/1.1", "Host: "+h.Listen, "", "")
		answer, text, err := d.answer(2 * time.Second)
		if answer == nil {
			t.Errorf("%s: %v", request, err)
			continue
		}
		if answer.StatusCode < 300 && !strings.HasPrefix(request, "OPTIONS") || strings.Contains(text, `"state"`) {
			t.Errorf("%s: %d %s", request, answer.StatusCode, text)
		}
	}
}
