package plan_test

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/tools/plan"
)

var update = flag.Bool("update", false, "write the tables of testdata and of deploy/CAPACITY.md, and the values of the chart")

func workload(users plan.Quantity) plan.Workload { return plan.Usual(users) }

func compute(t *testing.T, w plan.Workload) *plan.Plan {
	t.Helper()
	units := must.Get(plan.ReadUnits(nil))(t)
	prices := must.Get(plan.ReadPrices(nil))(t)
	must.Do(t, w.Validate())
	return plan.Compute(w, units, prices)
}

func TestMoreOfAnythingNeverNeedsOrCostsLess(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		few := workload(plan.Quantity(rapid.Float64Range(1, 1e9).Draw(r, "users")))
		more := few
		factor := rapid.Float64Range(1, 10).Draw(r, "factor")
		switch rapid.IntRange(0, 4).Draw(r, "what") {
		case 0:
			more.Users *= plan.Quantity(factor)
		case 1:
			more.Devices *= factor
		case 2:
			more.ChangesPerDay *= plan.Quantity(factor)
		case 3:
			more.Follows *= plan.Quantity(factor)
		case 4:
			more.Heartbeat = max(time.Second, time.Duration(float64(few.Heartbeat)/factor))
		}
		a, b := compute(t, few), compute(t, more)
		for i, l := range a.Lines {
			if got := b.Lines[i]; got.Value < l.Value*(1-1e-9) && l.Name != "for a million users" {
				r.Fatalf("%s, %s: %g, with more %g", l.Part, l.Name, l.Value, got.Value)
			}
		}
	})
}

func TestSmallPlansAreThoseOfPaperAndPencil(t *testing.T) {
	t.Parallel()
	w := workload(864_000)
	w.Devices, w.Peak, w.InUse, w.Heartbeat, w.Held = 1, 1, 1, 10*time.Second, 0
	p := compute(t, w)
	for _, c := range []struct {
		part, name string
		want       float64
	}{
		{"load", "heartbeats, or answers to pings", 86_400},
		{"load", "rows of heartbeats", 86_400},
		{"load", "changes at the peak", 200},
		{"load", "deliveries at the peak", 12_000},
		{"load", "frames to watchers at the peak", 400},
		{"detector", "partitions", 4},
		{"ingest", "sockets", 864_000},
		{"ingest", "cores", 86_400*9.3e-6 + 400*7.8e-6},
		{"ingest", "nodes", 9},
		{"detector", "records of heartbeats", 36},
		{"detector", "memory of users", 864_000 * 46.7},
		{"kafka", "heartbeats in", 86_400*16.7 + 36*100},
		{"kafka", "transitions and statuses in", 200 * 188},
		{"redis", "memory", 864_000 * 184},
		{"postgres", "rows of the log", 864_000 * 20 * 400},
		{"postgres", "rows of users and follows", 864_000 * 201},
		{"money a month", "ingest", 9 * 730 * 0.0816},
	} {
		if got := get(p, c.part, c.name); math.Abs(got-c.want) > c.want*1e-9 {
			t.Errorf("%s, %s: %g, want %g", c.part, c.name, got, c.want)
		}
	}
	w.Held = 0.5
	want := 43_200 + 0.5*(400+864_000/2250.0)
	if got := get(compute(t, w), "load", "rows of heartbeats"); math.Abs(got-want) > 1e-6 {
		t.Errorf("with half of them held there are %g rows a second, want %g", got, want)
	}
	sum := 0.0
	for _, l := range p.Lines {
		if l.Part == "money a month" && l.Name != "total" && l.Name != "for a million users" {
			sum += l.Value
		}
	}
	if total := get(p, "money a month", "total"); math.Abs(total-sum) > 1e-6 {
		t.Errorf("the total is %g, its parts are %g", total, sum)
	}
}

func TestNumbersAreReadAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"500M": 5e8, "1.5k": 1500, "2G": 2e9, "1B": 1e9, "20_000": 20000, "1,000": 1000, "2e6": 2e6, "7": 7} {
		var q plan.Quantity
		if err := q.UnmarshalText([]byte(text)); err != nil || float64(q) != want {
			t.Errorf("%s is %g, %v", text, q, err)
		}
	}
	for _, text := range []string{"", "M", "-1", "5m", "5MM", "many", "NaN", "Inf", "1e999"} {
		var q plan.Quantity
		if err := q.UnmarshalText([]byte(text)); err == nil ||
			!strings.Contains(err.Error(), "must be a number such as") {
			t.Errorf("%q: %g, %v", text, q, err)
		}
	}
}

func TestBadWorkloadsAndFilesAreRefusedWithTheFieldNamed(t *testing.T) {
	t.Parallel()
	w := workload(0)
	w.Devices, w.InUse = 0, 2
	err := w.Validate()
	for _, field := range []string{"--users", "--set devices", "--set in-use"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	if err := w.Set(map[string]string{"devices": "2", "heartbeat": "30s", "log-days": "7", "replication": "1"}); err != nil ||
		w.Devices != 2 || w.Heartbeat != 30*time.Second || w.LogDays != 7 || w.Replication != 1 {
		t.Errorf("%+v, %v", w, err)
	}
	if err := w.Set(map[string]string{"device": "2", "peak": "x", "users": "5"}); err == nil || strings.Count(err.Error(), "--set") != 3 {
		t.Errorf("numbers that cannot be set: %v", err)
	}
	if _, err := plan.ReadUnits([]byte("units: {beat_bytes: {value: 0}, other: {value: 1}}")); err == nil ||
		!strings.Contains(err.Error(), "beat_bytes") || !strings.Contains(err.Error(), "other: is not known") {
		t.Errorf("unit costs: %v", err)
	}
	if _, err := plan.ReadPrices([]byte("node: {cores: 2}")); err == nil ||
		!strings.Contains(err.Error(), "node.hour") {
		t.Errorf("prices: %v", err)
	}
}

// The examples of deploy/CAPACITY.md; go test ./tools/plan -update writes them.
func TestTheTablesOfTheCapacityPageAreWhatTheCommandPrints(t *testing.T) {
	t.Parallel()
	var table bytes.Buffer
	beating := workload(500e6)
	beating.Held = 0
	must.Do(t, plan.Text(&table, compute(t, workload(1e6)), compute(t, workload(20e6)), compute(t, workload(500e6)),
		compute(t, beating)))
	const begin, end = "<!-- plan -->\n", "<!-- end of plan -->\n"
	path := filepath.Join("..", "..", "deploy", "CAPACITY.md")
	page := must.Get(os.ReadFile(path))(t)
	head, rest, _ := strings.Cut(string(page), begin)
	shown, tail, found := strings.Cut(rest, end)
	if !found {
		t.Fatalf("%s has no %q and %q", path, begin, end)
	}
	if *update {
		if err := os.WriteFile(path, []byte(head+begin+"\n"+table.String()+"\n"+end+tail), 0o644); err != nil { //nolint:gosec // a page of the repository
			t.Fatal(err)
		}
		return
	}
	if strings.TrimSpace(shown) != strings.TrimSpace(table.String()) {
		t.Errorf("the tables of %s are out of date: go test ./tools/plan -update\n%s", path, table.String())
	}
}

// go test ./tools/plan -update writes them.
func TestTheChartsValuesForSizesAreThoseOfThePlan(t *testing.T) {
	t.Parallel()
	for name, users := range map[string]plan.Quantity{"1m": 1e6, "20m": 20e6} {
		var want bytes.Buffer
		must.Do(t, plan.HelmValues(&want, compute(t, workload(users))))
		path := filepath.Join("..", "..", "deploy", "helm", "stillhere", "values-"+name+".yaml")
		if *update {
			must.Do(t, os.WriteFile(path, want.Bytes(), 0o644))
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s is out of date: go test ./tools/plan -update\n%v", path, err)
		}
	}
}

// get is the value of a line; it panics if there is none.
func get(p *plan.Plan, part, name string) float64 {
	for _, l := range p.Lines {
		if l.Part == part && l.Name == name {
			return l.Value
		}
	}
	panic("plan: no line " + part + ": " + name)
}
