package app

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

func TestAPushIsDecidedByTheLongestPolicyOfATenant(t *testing.T) {
	t.Parallel()
	long, off, silent := schemas.DefaultPolicy(), schemas.DefaultPolicy(), schemas.DefaultPolicy()
	long.IdleAfter, off.IdleAfter, silent.AnnounceDevices = time.Hour, 0, false
	c := Config{Policy: schemas.DefaultPolicy(), Tenants: map[string]*schemas.Policy{"long": &long, "off": &off, "silent": &silent}}
	for tenant, want := range map[string]time.Duration{"": 5 * time.Minute, "other": 5 * time.Minute, "long": time.Hour, "off": 0, "silent": 0} {
		if got := c.idleAfter(tenant); got != want {
			t.Errorf("of tenant %q it is %v, want %v", tenant, got, want)
		}
	}
}
