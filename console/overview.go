package console

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/tick"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// Overview is the answer to GET overview. What is not known is null; what a tenant's administrator may
// not see is left out.
type Overview struct {
	At schemas.Millis `json:"at"`
	// Problems are what an operator should look at, in words.
	Problems     []string     `json:"problems"`
	Counts       *Counts      `json:"counts"`
	Rates        Rates        `json:"rates"`
	Policy       Policy       `json:"policy"`
	Signing      *Signing     `json:"signing"`
	Partitions   []Partition  `json:"partitions"`
	Groups       []Group      `json:"groups"`
	Instances    []Instance   `json:"instances"`
	Gateways     []Gateway    `json:"gateways"`
	Dependencies []Dependency `json:"dependencies"`
}

// Counts is how many users are present. Hidden users are not counted.
type Counts struct {
	Online int64 `json:"online"`
	Away   int64 `json:"away"`
	// ByKind are the present users by the kinds of their devices; a user with devices of two kinds counts
	// for both.
	ByKind map[string]int64 `json:"by_kind"`
	AsOf   schemas.Millis   `json:"as_of"`
	// Missing are the partitions of which no count is known.
	Missing []int32 `json:"missing_partitions"`
}

// Rates are per second.
type Rates struct {
	Beats      *float64 `json:"beats"`
	Changes    *float64 `json:"changes"`
	Deliveries *float64 `json:"deliveries"`
}

// Policy is the one in force. Settings have the names of the flags; durations are in seconds.
type Policy struct {
	ID       string         `json:"id"`
	Settings map[string]any `json:"settings"`
	Since    schemas.Millis `json:"since"`
}

// Signing is which heartbeats detectors take, by what they have committed.
type Signing struct {
	Masters []string `json:"masters"` // the fingerprints of those that count for some
	// Unsigned: some take heartbeats that are not signed.
	Unsigned bool `json:"unsigned"`
	// Authenticated: callers of this process are.
	Authenticated bool `json:"authenticated"`
	// Checked: this process has masters, so the list of gateways has only those whose heartbeats they take.
	Checked bool `json:"checked"`
}

// Partition is one of presence.heartbeats, and how the detector does with it.
type Partition struct {
	Partition int32   `json:"partition"`
	Owner     *string `json:"owner"`
	// Phase is restoring, running or parked; assigned where only the owner knows more; unassigned.
	Phase               string   `json:"phase"`
	LagRecords          *int64   `json:"lag_records"`
	LagSeconds          *float64 `json:"lag_seconds"`
	WatermarkAgeSeconds *float64 `json:"watermark_age_seconds"`
}

// Group is a consumer group.
type Group struct {
	Group      string   `json:"group"`
	Role       string   `json:"role"`
	State      string   `json:"state"`
	LagRecords *int64   `json:"lag_records"`
	Members    []Member `json:"members"`
}

// Member is a process of a group.
type Member struct {
	Instance   string  `json:"instance"`
	Host       string  `json:"host"`
	Partitions []int32 `json:"partitions"`
}

// Instance is a process of the pipeline.
type Instance struct {
	Role      string         `json:"role"`
	Instance  string         `json:"instance"`
	Version   *string        `json:"version"`
	Host      string         `json:"host"`
	StartedAt schemas.Millis `json:"started_at"`
	Ready     *bool          `json:"ready"`
	// LogEpochAwaited is the least log epoch of which its stores take changes, while they take none because Kafka was
	// restored from an older copy.
	LogEpochAwaited int64 `json:"log_epoch_awaited,omitempty"`
}

// Gateway is a process that sends beats.
type Gateway struct {
	Gateway string `json:"gateway"`
	// State is alive, draining, lost, or idle: silent as a lost one, but it left no users behind.
	State      string         `json:"state"`
	Users      *int64         `json:"users"`
	LastSeenAt schemas.Millis `json:"last_seen_at"`
	Epoch      schemas.Millis `json:"epoch"`
}

// Dependency is a server that the process uses.
type Dependency struct {
	Name  string  `json:"name"`
	Ready bool    `json:"ready"`
	Error *string `json:"error"`
}

// fresh is how old an overview may be that is shown again; slow that of what takes more requests.
const fresh, slow = 800 * time.Millisecond, 5 * time.Second

// overviews keeps the newest overview of all users for those who ask at the same time.
type overviews struct {
	mu       sync.Mutex // held while the servers are asked
	last     *Overview
	at       time.Time
	checked  time.Time
	checks   []Dependency
	groups   groupsSeen
	rates    meter
	unlogged map[string]bool // what failed and was logged
}

// getOverview answers GET overview.
func (s *Server) getOverview(ctx context.Context, r *http.Request) (any, error) {
	if _, err := parameters(r); err != nil {
		return nil, err
	}
	a, err := s.audienceOf(r)
	if err != nil {
		return nil, err
	}
	return s.overviewFor(ctx, a)
}

// streamOverview sends an overview each second.
func (s *Server) streamOverview(r *http.Request) (func(context.Context, *sender) error, error) {
	if _, err := parameters(r); err != nil {
		return nil, err
	}
	a, err := s.audienceOf(r)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, to *sender) error {
		for range tick.Now(ctx, time.Second) {
			o, err := s.overviewFor(ctx, a)
			if err == nil {
				err = to.send("overview", o)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// overviewFor is what the sender of a request may see. The caller may change it, but not what it
// points to.
func (s *Server) overviewFor(ctx context.Context, a audience) (*Overview, error) {
	var o Overview
	if a.bound {
		o = Overview{At: schemas.MillisOf(time.Now())}
	} else {
		o = *s.refreshed(ctx)
	}
	if a.all {
		return &o, nil
	}
	o.Policy = s.policyOf(a.tenant, o.Policy)
	counts, err := s.View.CountsOfTenant(ctx, a.tenant, s.Partitions)
	if err != nil {
		return nil, err
	}
	o.Counts = s.countsOf(counts)
	return &o, nil
}

// refreshed is the overview of all users, which is never changed.
func (s *Server) refreshed(ctx context.Context) *Overview {
	v := &s.overview
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	if v.last != nil && now.Sub(v.at) < fresh {
		return v.last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	o := &Overview{At: schemas.MillisOf(now)}
	if now.Sub(v.checked) >= slow {
		v.checks, v.checked = s.dependencies(ctx), now
	}
	o.Dependencies = v.checks
	counts, err := s.View.Counts(ctx)
	if s.known("counts", err) {
		o.Counts = s.countsOf(counts)
	}
	processes := s.processes(ctx, now)
	o.Rates = v.rates.next(processes)
	o.Policy = s.policyOf("", Policy{})
	if err := s.lookAtGroups(ctx, now); s.known("groups", err) {
		o.Groups, o.Policy.Since = s.groupsOf(), v.groups.policySince(o.Policy.ID)
		if o.Signing = v.groups.signing(); o.Signing != nil {
			o.Signing.Authenticated, o.Signing.Checked = s.Current().Auth.On(), s.Cluster.Keys != nil
		}
	}
	o.Partitions = s.partitionsOf(ctx, now)
	if loaded, err := s.gateways.tail.await(ctx, gatewaysTimeout); s.known("gateways", err) && loaded {
		config := s.Current()
		ttl := config.Policy.OnlineTTL
		for _, own := range config.Tenants {
			if own != nil {
				ttl = max(ttl, config.Policy.For(own).OnlineTTL)
			}
		}
		o.Gateways = s.gateways.set.list(config.Policy, ttl)
	}
	o.Instances = instancesOf(processes, v.groups.found, o.Partitions)
	o.Problems = ProblemsOf(o)
	v.last, v.at = o, time.Now()
	return o
}

// known reports whether err is nil. It logs the first of a row of errors.
func (s *Server) known(what string, err error) bool {
	v := &s.overview
	if v.unlogged == nil {
		v.unlogged = map[string]bool{}
	}
	if err != nil && !v.unlogged[what] {
		s.Log.Warn("the console lacks a part of its overview", "what", what, "error", err)
	}
	v.unlogged[what] = err != nil
	return err == nil
}

// countsOf adds up the counts of the partitions.
func (s *Server) countsOf(byPartition map[int32]redisview.PartitionCounts) *Counts {
	sum, missing := redisview.SumCounts(byPartition, s.Partitions)
	c := &Counts{ByKind: map[string]int64{}, AsOf: sum.At, Missing: missing}
	c.Online, c.Away = sum.Online, sum.Away
	for i, kind := range schemas.Kinds {
		c.ByKind[schemas.KindWord(kind)] = sum.ByKind[i]
	}
	return c
}

// policyOf is the policy in force for a tenant; all is that of tenants without one.
func (s *Server) policyOf(tenant string, all Policy) Policy {
	config := s.Current()
	inForce := config.Policy
	if own := config.Tenants[tenant]; own != nil {
		inForce, all.Since = config.Policy.For(own), 0
	}
	return Policy{ID: inForce.ID(), Settings: settingsOf(inForce), Since: all.Since}
}

// settingsOf has durations in seconds, under names that say so.
func settingsOf(p schemas.Policy) map[string]any {
	all := map[string]any{}
	for _, setting := range p.Settings() {
		if n, err := strconv.Atoi(setting.Value); err == nil && !strings.HasSuffix(setting.Value, "s") {
			all[setting.Name] = n
		} else if d, err := time.ParseDuration(setting.Value); err == nil {
			all[setting.Name+"_seconds"] = d.Seconds()
		} else {
			all[setting.Name] = setting.Value == "true"
		}
	}
	return all
}

// servers are the checks that ask a server, with what the page calls it.
func (s *Server) dependencies(ctx context.Context) []Dependency {
	names := map[string]string{"kafka": "kafka", "redis": "redis", "store": "postgres", "follower graph": "follower graph"}
	if s.Config.Store.SQLite != "" {
		names["store"] = "sqlite"
	}
	all := []Dependency{}
	for _, check := range s.Checks(ctx) {
		name, server := names[check.Name]
		if !server || slices.ContainsFunc(all, func(d Dependency) bool { return d.Name == name }) {
			continue
		}
		d := Dependency{Name: name, Ready: check.Err == nil}
		if check.Err != nil {
			text := check.Err.Error()
			d.Error = &text
		}
		all = append(all, d)
	}
	return all
}
