package httpgate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestNamedGatewayIsKeptAliveAsLongAsItsRequestsCome(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), func(d endpoint) {
		d.wants(d.post(named("gw-1", 5, `{"user_id":1,"device_id":7}`)), 202, "")
		// Users beat every 15 s; in between it only says that it is here.
		for i := range 20 {
			pass(5 * time.Second)
			beats := ""
			if i%3 == 2 {
				beats = `{"user_id":1,"device_id":7}`
			}
			d.wants(d.post(named("gw-1", 5, beats)), 202, "")
		}
		said := time.Now()
		pass(time.Minute)
		var last time.Time
		for i, w := range d.log.Alive() {
			if w.Gateway != "gw-1" || w.Epoch != epoch(5) {
				t.Fatalf("got %+v", w)
			}
			if gap := w.At.Sub(last); i > 0 && gap > 2*time.Second {
				t.Fatalf("%s between two frames", gap)
			}
			last = w.At
		}
		if after := last.Sub(said); after < 8*time.Second || after > 10*time.Second {
			t.Errorf("the last frame came %s after the last request, want a little less than 10 s", after)
		}
	})
}

func TestAGatewayOfOneUserIsNotSilentForTenSecondsBetweenTwoBeats(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.HeartbeatInterval, cfg.Sockets.IdleTimeout = 30*time.Second, time.Minute
	inBubble(t, cfg, func(d endpoint) {
		for range 5 {
			d.wants(d.post(named("gw-1", 5, `{"user_id":1,"device_id":7}`)), 202, "")
			pass(cfg.HeartbeatInterval)
		}
		written := d.log.Alive()
		for i := 1; i < len(written); i++ {
			if gap := written[i].At.Sub(written[i-1].At); gap >= 10*time.Second {
				t.Errorf("%s between two frames", gap)
			}
		}
	})
}

func TestNewEpochReplacesTheOldOne(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), func(d endpoint) {
		d.post(named("gw-1", 5, `{"user_id":1,"device_id":7}`))
		d.post(named("gw-1", 6, `{"user_id":1,"device_id":7}`))
		d.wants(d.post(named("gw-1", 5, `{"user_id":1,"device_id":7}`)), 202, "") // one that was late
		before := len(d.log.Alive())
		pass(5 * time.Second)
		alive := d.log.Alive()[before:]
		for _, w := range alive {
			if w.Epoch != epoch(6) {
				t.Errorf("alive frame of epoch %d", w.Epoch)
			}
		}
		if len(alive) == 0 {
			t.Error("no alive frames")
		}
	})
}

func TestNamedGatewaysAreBounded(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.HTTP.MaxGateways = 2
	inBubble(t, cfg, func(d endpoint) {
		for i := range 2 {
			d.wants(d.post(named(fmt.Sprint("gw-", i), 5, "")), 202, `{"accepted":0}`)
		}
		if w := d.post(named("gw-2", 5, "")); w.Code != 503 || !strings.Contains(w.Body.String(), "too many gateways") {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		pass(2 * time.Minute)
		d.wants(d.post(named("gw-2", 5, "")), 202, "")
	})
}

func TestAliveFramesDoNotPileUpWhileKafkaIsAway(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), func(d endpoint) {
		d.post(named("gw-1", 5, `{"user_id":1,"device_id":7}`))
		d.log.Away(true)
		tried := d.log.Tried()
		for range 10 {
			pass(5 * time.Second)
			d.post(named("gw-1", 5, ""))
		}
		if n := d.log.Tried() - tried; n > 12 {
			t.Errorf("%d alive frames in 50 s although each waits 5 s for Kafka", n)
		}
		pass(10 * time.Second)
	})
}
