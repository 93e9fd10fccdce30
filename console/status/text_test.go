package status

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/console"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

const noon = schemas.Millis(1_795_435_200_000)

func of[T any](value T) *T { return &value }

// small is a pipeline of one process without users.
func small() *Overview {
	o := &Overview{At: noon, Counts: &console.Counts{ByKind: map[string]int64{"mobile": 0}},
		Rates:        console.Rates{Beats: of(0.0), Changes: of(0.0)},
		Policy:       console.Policy{ID: "c145a1d51181", Settings: map[string]any{"online_ttl_seconds": 30.0, "heartbeat_interval_seconds": 15.0, "away_ttl_seconds": 300.0, "offline_debounce_seconds": 15.0}},
		Dependencies: []console.Dependency{{Name: "kafka", Ready: true}, {Name: "redis", Ready: true}, {Name: "sqlite", Ready: true}},
		Groups:       []console.Group{{Group: "stillhere.detector", Role: "detector", State: "Stable", LagRecords: of(int64(0)), Members: []console.Member{{Instance: "dev", Partitions: []int32{0, 1, 2, 3}}}}},
		Instances:    []console.Instance{{Role: "all", Instance: "dev", Version: of("1.2.3"), Host: "laptop", StartedAt: noon - 3_600_000, Ready: of(true)}},
		Gateways:     []console.Gateway{}}
	for p := range int32(4) {
		o.Partitions = append(o.Partitions, console.Partition{Partition: p, Owner: of("dev"), Phase: "running", LagRecords: of(int64(0)), LagSeconds: of(0.0), WatermarkAgeSeconds: of(0.3)})
	}
	return o
}

// large is a pipeline with many users and some problems.
func large() *Overview {
	o := small()
	o.Counts = &console.Counts{Online: 1_234_567, Away: 89_012, ByKind: map[string]int64{"mobile": 1_000_000, "web": 323_579}}
	o.Rates = console.Rates{Beats: of(88_123.4), Changes: of(4321.5), Deliveries: of(12.34)}
	o.Partitions, o.Instances, o.Gateways = nil, nil, nil
	for p := range int32(64) {
		one := console.Partition{Partition: p, Owner: of(fmt.Sprintf("detector-%d", p%3)), Phase: "assigned", LagRecords: of(int64(p) * 37 % 11), LagSeconds: of(0.2), WatermarkAgeSeconds: of(0.4)}
		if p == 17 {
			one = console.Partition{Partition: p, Phase: "unassigned"}
		}
		o.Partitions = append(o.Partitions, one)
	}
	for i := range 3 {
		o.Instances = append(o.Instances, console.Instance{Role: "detector", Instance: fmt.Sprintf("detector-%d", i), Host: "10.0.0.7", StartedAt: noon - 86_400_000})
	}
	o.Instances = append(o.Instances, console.Instance{Role: "api", Instance: "api-0", Version: of("1.2.3"), Ready: of(false), Host: "api-0"},
		console.Instance{Role: "fanout", Instance: "fanout-0", Version: of("1.2.4"), Ready: of(true), Host: "fanout-0"})
	o.Gateways = append(o.Gateways, console.Gateway{Gateway: "gw-eu-7", State: "lost", Users: of(int64(40_000)), LastSeenAt: noon - 30_000, Epoch: noon - 90_000_000})
	for i := range 30 {
		o.Gateways = append(o.Gateways, console.Gateway{Gateway: fmt.Sprintf("gw-%02d\x1b[31m", i), State: "alive", Users: of(int64(40_000 - 997*i)), LastSeenAt: noon - 1000, Epoch: noon - 90_000_000})
	}
	o.Problems = console.ProblemsOf(o)
	return o
}

func TestAGatewayWithoutUsersIsNoProblem(t *testing.T) {
	t.Parallel()
	o := small()
	o.Gateways = []console.Gateway{{Gateway: "quiet", State: "idle", Users: of(int64(0)), LastSeenAt: noon - 60_000}}
	if all := console.ProblemsOf(o); len(all) != 0 {
		t.Errorf("problems are %q", all)
	}
	o.Gateways = append(o.Gateways, console.Gateway{Gateway: "fell", State: "lost", LastSeenAt: noon - 60_000})
	if all := console.ProblemsOf(o); len(all) != 1 || !strings.Contains(all[0], "fell is lost since 11:59:00") {
		t.Errorf("problems are %q", all)
	}
}

func TestAnInstantOfAnotherDayHasItsDay(t *testing.T) {
	t.Parallel()
	o := small()
	o.Gateways = []console.Gateway{{Gateway: "fell", State: "lost", LastSeenAt: noon - 7*86_400_000, Epoch: noon - 8*86_400_000},
		{Gateway: "well", State: "alive", LastSeenAt: noon - 1000, Epoch: noon - 86_400_000}}
	o.Problems = console.ProblemsOf(o)
	var text strings.Builder
	must.Do(t, WriteText(&text, o))
	for _, want := range []string{"fell is lost since 2026-11-16 12:00:00\n", "2026-11-16 12:00:00.000  2026-11-15 12:00:00.000", "2026-11-23 11:59:59.000  2026-11-22 12:00:00.000"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("there is no %q in\n%s", want, text.String())
		}
	}
}

func TestTheTablesNameWhatIsWrong(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	must.Do(t, WriteText(&b, large()))
	for _, want := range []string{"1,234,567 online, 89,012 away", "partition 17 is unassigned", "gateway gw-eu-7 is lost", "api api-0 is not ready", "different versions: 1.2.3, 1.2.4", `gw-03\x1b[31m`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := WriteText(&b, &Overview{}); err != nil || !strings.Contains(b.String(), "none known") {
		t.Errorf("of nothing known it says %s (%v)", b.String(), err)
	}
	if all := console.ProblemsOf(small()); len(all) > 0 {
		t.Errorf("a pipeline without problems has %v", all)
	}
}
