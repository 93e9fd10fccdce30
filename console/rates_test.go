package console

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

func process(instance string, at schemas.Millis, total float64) redisview.Process {
	return redisview.Process{Role: "detector", Instance: instance, Started: 1, At: at, Totals: map[string]float64{redisview.BeatsApplied: total}}
}

func TestRatesAreThoseBetweenTwoTotalsAndStandUntilTheNext(t *testing.T) {
	t.Parallel()
	var m meter
	if r := m.next([]redisview.Process{process("a", 1000, 50)}); r.Beats != nil || r.Changes != nil {
		t.Errorf("the first total makes a rate: %v", r)
	}
	for range 2 { // the process has not written another total at the second look
		r := m.next([]redisview.Process{process("a", 3000, 90), process("b", 3000, 7)})
		if r.Beats == nil || *r.Beats != 20 || r.Changes != nil {
			t.Fatalf("beats are %v, changes %v", r.Beats, r.Changes)
		}
	}
	if r := m.next([]redisview.Process{process("a", 4000, 90), process("b", 4000, 12)}); *r.Beats != 5 {
		t.Errorf("of two processes they are %v", *r.Beats)
	}
	if r := m.next([]redisview.Process{process("b", 5000, 12)}); *r.Beats != 0 {
		t.Errorf("a process that stopped counts %v", *r.Beats)
	}
	again := process("b", 6000, 3)
	again.Started = 5500
	if r := m.next([]redisview.Process{again}); r.Beats != nil {
		t.Errorf("a process that started again has the rate %v", *r.Beats)
	}
}

func TestSettingsAreNumbersUnderTheNamesOfTheFlags(t *testing.T) {
	t.Parallel()
	p := schemas.DefaultPolicy()
	p.OnlineTTL, p.ByeDebounce, p.MaxDevices = 45*time.Second, 0, 7
	all := settingsOf(p)
	for name, want := range map[string]any{"online_ttl_seconds": 45.0, "bye_debounce_seconds": 0.0, "max_devices": 7} {
		if all[name] != want {
			t.Errorf("%s is %v, not %v", name, all[name], want)
		}
	}
	if len(all) != len(p.Settings()) {
		t.Errorf("there are %d settings, not %d", len(all), len(p.Settings()))
	}
}
