package liveness

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

func TestABeatOfOneOfSeveralDevicesIsJudgedByThePolicyOfItsTenant(t *testing.T) {
	w := newWorld(t, Defaults())
	patient := Defaults()
	patient.IdleAfter = 10 * time.Minute
	w.record(schemas.AppendTenantPolicy(nil, schemas.TenantPolicy{Tenant: "acme", Policy: &patient}))
	w.m.Named(1, "acme")
	idle := func(user schemas.UserID, device schemas.DeviceID, idle time.Duration) schemas.Beat {
		return schemas.Beat{User: user, Device: device, Kind: schemas.Web, Idle: schemas.Millis(idle.Milliseconds())}
	}
	for range 2 {
		w.now += 1000
		w.beats(idle(1, 1, time.Hour), idle(1, 2, time.Hour), idle(2, 1, 0), idle(2, 2, 0))
	}
	w.out.Reset()
	w.now += 1000
	w.beats(idle(2, 1, 0), idle(1, 1, 8*time.Minute))
	if len(w.out.Transitions) != 1 || w.out.Transitions[0].To != schemas.Online {
		t.Errorf("got %+v, want user 1 active again", w.out.Transitions)
	}
}
