package socketgate_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func TestConnectingIsTheFirstBeatAndHelloTheFirstMessage(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), nil, func(d endpoint) {
		p := d.connect(phone + "&idle_ms=60000&token=x")
		if m := p.hears(); m != hello {
			t.Errorf("got %s, want %s", m, hello)
		}
		d.expect(beatIs(time.Minute))
		p.close(websocket.StatusNormalClosure)
		d.expect(bye())
	})
}

func TestPingAndEmptyMessageAreBeatsAndIdlenessGrows(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), nil, func(d endpoint) {
		p := d.connect(phone)
		pass(10 * time.Second)
		p.ping()
		pass(5 * time.Second)
		p.say("")
		p.say(`{"type":"activity","idle_ms":60000}`)
		pass(10 * time.Second)
		p.ping()
		p.say(`{"idle_ms":0,"type":"activity"}`)
		d.expect(beatIs(0), beatIs(0), beatIs(0), beatIs(time.Minute), beatIs(70*time.Second), beatIs(0))
		p.abortAll()
	})
}

func TestOnlyADeliberateEndIsABye(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(p *peer)
		want []said
	}{
		"close 1000":         {func(p *peer) { p.close(1000) }, []said{bye()}},
		"close 1001":         {func(p *peer) { p.close(1001) }, []said{bye()}},
		"close without code": {func(p *peer) { p.close(1005) }, []said{bye()}},
		"close 1011":         {func(p *peer) { p.close(1011) }, []said{lost(0)}},
		"close 4000":         {func(p *peer) { p.close(4000) }, []said{lost(0)}},
		"lost":               {func(p *peer) { p.abortAll() }, []said{lost(0)}},
		"said and closed":    {func(p *peer) { p.say(`{"type":"bye"}`); p.close(1000) }, []said{bye()}},
		"said and lost":      {func(p *peer) { p.say(`{"type":"bye"}`); p.abortAll() }, []said{bye()}},
		"said, back, closed": {func(p *peer) { p.say(`{"type":"bye"}`); p.ping(); p.close(1000) }, []said{bye(), beatIs(0), bye()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config(), nil, func(d endpoint) {
				p := d.connect(phone)
				d.expect(beatIs(0))
				c.end(p)
				d.expect(c.want...)
			})
		})
	}
}

func TestByeDoesNotCountWhileAnotherSocketOfTheDeviceIsAlive(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), nil, func(d endpoint) {
		old := d.connect(phone)
		fresh := d.connect(phone)
		d.expect(beatIs(0), beatIs(0))
		old.close(websocket.StatusGoingAway)
		d.expect()
		silent := d.connect(phone)
		pass(30 * time.Second)
		fresh.ping()
		d.expect(beatIs(0), beatIs(0))             // the other has not said that it is idle
		fresh.close(websocket.StatusNormalClosure) // the other says nothing, but answers pings
		d.expect()
		silent.close(websocket.StatusNormalClosure)
		d.expect(bye())
	})
}

func TestEveryPingIsABeat(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), nil, func(d endpoint) {
		p := d.connect(phone)
		d.expect(beatIs(0))
		for range 1000 {
			pass(20 * time.Millisecond) // 50 a second, as many as a socket may send
			p.ping()
		}
		if n := len(d.beats.take()); n != 1000 {
			t.Errorf("%d beats of 1000 pings", n)
		}
		p.abortAll()
	})
}

func TestBadQueriesAreRefusedBeforeTheUpgrade(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), nil, func(d endpoint) {
		for query, field := range map[string]string{
			"":                                  "user_id",
			"user_id=0&device_id=7":             "user_id",
			"user_id=-1&device_id=7":            "user_id",
			"user_id=abc&device_id=7":           "user_id",
			"user_id=9223372036854775808":       "user_id",
			"user_id=1&user_id=2&device_id=7":   "user_id",
			"user_id=1":                         "device_id",
			"user_id=1&device_id=4294967296":    "device_id",
			phone + "1":                         "device_kind",
			"user_id=1&device_id=7&idle_ms=-1":  "idle_ms",
			"user_id=1&device_id=7&idle_ms=3e9": "idle_ms",
			"user_id=1;device_id=7":             "query",
			phone + "&deliveries=maybe":         "deliveries",
			phone + "&deliveries=1&deliveries=": "deliveries",
		} {
			answer := d.refused(query, "")
			if answer.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: got %v", query, answer)
			}
			text := make([]byte, 1000)
			n, _ := answer.Body.Read(text)
			if !strings.Contains(string(text[:n]), `"field":"`+field+`"`) {
				t.Errorf("%s: got %s, want it to name %s", query, text[:n], field)
			}
		}
		d.expect()
	})
}
