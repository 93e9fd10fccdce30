package socketgate_test

import (
	"context"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stillhere/stillhere/schemas"
)

func TestBadMessagesAreAnsweredAndTheSocketSurvives(t *testing.T) {
	t.Parallel() // scenario 37
	inBubble(t, config(), nil, func(d endpoint) {
		p := d.connect(phone)
		p.hears()
		for message, want := range map[string]string{
			`{"type":"activity"`:               `"code":"malformed"`,
			`{"type":"activity"} x`:            `"code":"malformed"`,
			"\x00\x01":                         `"code":"malformed"`,
			`[]`:                               `"field":"message"`,
			`{}`:                               `"field":"type"`,
			`{"type":7}`:                       `"field":"type"`,
			`{"type":"dance"}`:                 `"code":"unknown_type"`,
			`{"type":"bye","type":"bye"}`:      `"code":"repeated_field"`,
			`{"type":"activity"}`:              `"field":"idle_ms"`,
			`{"type":"activity","idle_ms":-1}`: `"field":"idle_ms"`,
			`{"type":"activity","idle_ms":2592000001}`:       `"field":"idle_ms"`,
			`{"type":"activity","idle_ms":1,"mood":"fine"}`:  `"field":"mood"`,
			`{"type":"bye","user_id":2}`:                     `"field":"user_id"`,
			`{"type":"subscribe","user_ids":["1"]}`:          `"code":"unknown_type"`,
			strings.Repeat(" ", 1<<20):                       `"code":"too_large"`,
			`{"type":"` + strings.Repeat("x", 40_000) + `"}`: `"code":"too_large"`,
			`{"a":` + strings.Repeat("[", 1000):              `"code":"malformed"`,
		} {
			p.say(message)
			if got := p.hears(); !strings.HasPrefix(got, `{"type":"error","error":{`) || !strings.Contains(got, want) {
				t.Errorf("%.60s: got %s, want an error with %s", message, got, want)
			}
		}
		d.expect(beatIs(0))
		p.ping()
		d.expect(beatIs(0))
		p.abortAll()
	})
}

func TestEndlessMessageEndsTheSocketWithoutABye(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), nil, func(d endpoint) {
		p := d.connect(phone)
		_ = p.Write(context.Background(), websocket.MessageText, make([]byte, 5<<20))
		if err := <-p.ended; websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
			t.Errorf("ended with %v, want 1009", err)
		}
		d.expect(beatIs(0), lost(0))
	})
}

func TestDeliveriesAreAskedForWhenConnecting(t *testing.T) {
	t.Parallel()
	var handled []string
	open := func(schemas.UserID, schemas.Name, bool, func([]byte) error) (func([]byte) bool, func()) {
		return func(m []byte) bool { handled = append(handled, string(m)); return true }, func() {}
	}
	inBubble(t, config(), open, func(d endpoint) {
		for _, query := range []string{"", "&deliveries=false", "&deliveries=true"} {
			d.connect(phone + query).abortAll()
		}
		if len(handled) != 1 || handled[0] != `{"type":"deliveries","enabled":true}` {
			t.Errorf("the stream has handled %q", handled)
		}
	})
	inBubble(t, config(), nil, func(d endpoint) {
		p := d.connect(phone + "&deliveries=true")
		p.hears()
		if m := p.hears(); !strings.Contains(m, `"no_deliveries"`) || !strings.Contains(m, `"field":"deliveries"`) {
			t.Errorf("without a stream: %s", m)
		}
		p.abortAll()
	})
}

func TestWhatIngestDoesNotKnowGoesToTheStream(t *testing.T) {
	t.Parallel()
	var handled []string
	closed := 0
	var write func([]byte) error
	open := func(_ schemas.UserID, _ schemas.Name, _ bool, send func([]byte) error) (func([]byte) bool, func()) {
		write = send
		return func(m []byte) bool {
			handled = append(handled, string(m))
			return strings.Contains(string(m), "subscribe")
		}, func() { closed++ }
	}
	inBubble(t, config(), open, func(d endpoint) {
		p := d.connect(phone)
		if m := p.hears(); m != hello {
			t.Errorf("got %s before the hello", m)
		}
		p.say(`{"type":"subscribe","user_ids":["2"]}`)
		p.say(`{"type":"activity","idle_ms":0}`)
		p.say(`{"type":"dance"}`)
		if m := p.hears(); !strings.Contains(m, "unknown_type") {
			t.Errorf("got %s", m)
		}
		if err := write([]byte(`{"type":"snapshot","users":[]}`)); err != nil {
			t.Error(err)
		}
		if m := p.hears(); m != `{"type":"snapshot","users":[]}` {
			t.Errorf("got %s", m)
		}
		if len(handled) != 2 || closed != 0 {
			t.Errorf("handled %q, closed %d times", handled, closed)
		}
		p.close(websocket.StatusNormalClosure)
		if closed != 1 {
			t.Errorf("closed %d times", closed)
		}
		if write([]byte("x")) == nil {
			t.Error("a send after the end succeeded")
		}
	})
}
