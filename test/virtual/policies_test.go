package virtual

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// settings are policies that are set in a world whose users are called by names, and beats.
type settings struct {
	*world
	ingest    *process
	detectors [2]*process // nil while it does not run
	tenants   []named
}

func newSettings(w *world) *settings {
	w.Helper()
	s := &settings{world: w}
	s.turn(0)
	s.ingest = w.start("ingest", "ingest")
	for _, tenant := range []string{"", "acme", "zeta"} {
		s.tenants = append(s.tenants, named{w, s.ingest.base, "", tenant})
	}
	time.Sleep(5 * time.Second) // the first policy is in force
	return s
}

// quickBy is a policy by which a user who is silent for ttl leaves.
func (s *settings) quickBy(ttl time.Duration) schemas.Policy {
	p := s.config.Policy
	p.HeartbeatInterval, p.HeartbeatJitter, p.OnlineTTL, p.OfflineDebounce, p.AwayTTL = time.Second, 100*time.Millisecond, ttl, 0, 0
	p.CohortRate += int(ttl.Milliseconds()) // so that what a tenant goes by depends on the pipeline's, too
	return p
}

// set brings a policy into force; "-": of the pipeline.
func (s *settings) set(tenant string, p *schemas.Policy) {
	s.Helper()
	var err error
	if tenant == "-" {
		err = policy.Set(context.Background(), clusterOf(s.config), *p, s.log)
	} else {
		err = policy.SetTenant(context.Background(), clusterOf(s.config), schemas.TenantPolicy{Tenant: tenant, Policy: p}, s.log)
	}
	must.Do(s, err)
}

// beat sends beats of all users, or their byes.
func (s *settings) beat(bye bool) {
	s.Helper()
	for _, t := range s.tenants {
		t.beat(bye)
	}
}

// turn stops a detector, or starts it.
func (s *settings) turn(i int) {
	s.Helper()
	if s.detectors[i] == nil {
		s.detectors[i] = s.start("detector", fmt.Sprint("detector-", i))
		return
	}
	s.detectors[i].stop()
	s.detectors[i] = nil
}

// refuse makes Kafka refuse the next policy that is written, for good: the session that wrote it must begin again.
func (s *settings) refuse() {
	s.kafka.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "presence.policies", Err: kerr.InvalidTimestamp, Count: 1})
}

// resolve checks that the topic policies alone has what each transition names, and returns how many policies
// transitions name.
func (s *settings) resolve() int {
	s.Helper()
	s.tap.catchUp()
	all := s.tap.committed() // before the policies are read
	known := must.Get(policy.ReadKnown(context.Background(), s.tap.reader, nil, nil))(s)
	ids := map[string]bool{}
	for _, part := range all {
		for i := range part {
			id := part[i].Policy
			if ids[id] {
				continue
			}
			ids[id] = true
			if _, err := known.Find(id); err != nil {
				s.Errorf("%s\n  was judged by a policy that is not known: %v", line(&part[i]), err)
			}
		}
	}
	return len(ids)
}

func TestPoliciesOfSecondsAndThoseThatADetectorFindsInTheLogAreKnown(t *testing.T) {
	inWorld(t, size{partitions: 2, named: true}, func(w *world) {
		s := newSettings(w)
		s.beat(false)
		brief := s.quickBy(3 * time.Second)
		s.set("-", &brief)
		time.Sleep(5 * time.Second) // all leave by it
		before := s.config.Policy
		s.set("-", &before)
		time.Sleep(time.Second)
		if n := s.resolve(); n != 2 {
			t.Errorf("transitions name %d policies, want that of the beginning and the brief one", n)
		}

		// Five within a minute, and one of a tenant, while no detector runs.
		s.turn(0)
		for i := range 5 {
			p := s.quickBy(time.Duration(4+i) * time.Second)
			s.set("-", &p)
			if i == 2 {
				own := s.quickBy(2 * time.Second)
				s.set("acme", &own)
			}
			s.beat(false)
			time.Sleep(5 * time.Second)
			s.beat(true)
			time.Sleep(5 * time.Second)
		}
		s.set("-", &before)
		s.set("acme", nil)
		time.Sleep(10 * time.Minute)
		s.turn(0)
		time.Sleep(30 * time.Second)
		if n := s.resolve(); n != 2+5+3 {
			t.Errorf("transitions name %d policies, want 5 more, and the last 3 with the tenant's settings", n)
		}
	})
}

func TestEveryPolicyThatTransitionsNameIsKnownWhateverIsSetAndStopped(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, size{partitions: 4, named: true}, func(w *world) {
				s, rng := newSettings(w), rand.New(rand.NewPCG(seed, 15))
				for range 80 {
					p := s.quickBy(time.Duration(2000+rng.IntN(30)*100) * time.Millisecond) // some come back
					switch n := rng.IntN(10); {
					case n < 3:
						s.set("-", &p)
					case n < 4:
						s.set([]string{"", "acme"}[rng.IntN(2)], &p)
					case n < 5:
						s.set([]string{"", "acme"}[rng.IntN(2)], nil)
					case n < 6:
						s.turn(rng.IntN(2))
					case n < 7:
						s.refuse()
					default:
						s.beat(rng.IntN(2) == 0)
					}
					time.Sleep(time.Duration(rng.IntN(6000)) * time.Millisecond)
					s.resolve()
				}
				if s.detectors[0] == nil {
					s.turn(0)
				}
				time.Sleep(30 * time.Second)
				if named := s.resolve(); named < 4 {
					t.Errorf("transitions name only %d policies", named)
				}
			})
		})
	}
}
