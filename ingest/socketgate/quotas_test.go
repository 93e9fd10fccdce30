package socketgate_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/schemas"
)

func TestATenantHasItsQuotaOfSockets(t *testing.T) {
	t.Parallel()
	quotas := []schemas.Tenant{{Name: "acme", Quotas: schemas.TenantQuotas{ConnectionsPerProcess: 2}}}
	inBubbleOf(t, byName(), nil, quotas, func(d endpoint) {
		first := d.connect("tenant=acme&user_id=ann&device_id=a")
		d.connect("tenant=acme&user_id=ben&device_id=a")
		d.refuses("tenant=acme&user_id=cara&device_id=a", http.StatusTooManyRequests)
		d.connect("tenant=other-one&user_id=cara&device_id=a")
		first.close(websocket.StatusNormalClosure)
		d.connect("tenant=acme&user_id=cara&device_id=a")
		d.refuses("tenant=acme&user_id=ann&device_id=a", http.StatusTooManyRequests)
	})
}

func TestBeatsOverATenantsQuotaAreRefusedBeforeTheSocketIsClosed(t *testing.T) {
	t.Parallel()
	quotas := []schemas.Tenant{{Name: "acme", Quotas: schemas.TenantQuotas{BeatsPerSecondPerProcess: 1}}}
	inBubbleOf(t, byName(), nil, quotas, func(d endpoint) {
		p := d.connect("tenant=acme&user_id=ann&device_id=a")
		d.refuses("tenant=acme&user_id=ben&device_id=a", http.StatusTooManyRequests) // the first beat of another socket
		q := d.connect("tenant=other-one&user_id=ann&device_id=a")
		p.hears()
		q.hears()
		d.beats.take()
		p.say("")
		if m := p.hears(); !strings.Contains(m, `"code":"tenant_quota"`) || !strings.Contains(m, "beats_per_second_per_process") {
			t.Error(m)
		}
		d.expect()
		q.say("")
		q.say("")
		if n := len(d.beats.take()); n != 2 {
			t.Errorf("another tenant sent 2 beats, %d are written", n)
		}
		pass(time.Second)
		p.say("")
		if n := len(d.beats.take()); n != 1 {
			t.Errorf("a second later a beat is refused")
		}
	})
}

func TestASocketWhoseBeatsAreAllRefusedIsClosed(t *testing.T) {
	t.Parallel()
	quotas := []schemas.Tenant{{Name: "acme", Quotas: schemas.TenantQuotas{BeatsPerSecondPerProcess: 1}}}
	cfg := byName()
	inBubbleOf(t, cfg, nil, quotas, func(d endpoint) {
		greedy := d.connect("tenant=acme&user_id=ben&device_id=a")
		pass(time.Second)
		p := d.connect("tenant=acme&user_id=ann&device_id=a")
		for range 100 {
			for range 3 {
				greedy.say("") // takes what comes free
			}
			p.say("")
			select {
			case err := <-p.ended:
				if websocket.CloseStatus(err) != 4429 || !strings.Contains(err.Error(), "beats_per_second_per_process") {
					t.Errorf("the socket was closed with %v", err)
				}
				return
			case <-time.After(time.Second):
			}
		}
		t.Error("the socket was not closed")
	})
}
