//go:build unix

package process_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// policyID is the id of the policy in force.
func (k *keyboard) policyID(flags ...string) string {
	k.Helper()
	var shown struct{ ID string }
	if err := json.Unmarshal([]byte(k.types(0, nil, append([]string{"policy", "show", "--output", "json"}, flags...)...)), &shown); err != nil || len(shown.ID) != 12 {
		k.Fatalf("policy show: %q, %v", shown.ID, err)
	}
	return shown.ID
}

// kept waits until the topic policies has those with the ids.
func (k *keyboard) kept(ids ...string) {
	k.Helper()
	reader := kafkatest.Reader(k, kafka.Config{Brokers: []string{k.Broker}})
	testkit.Until(k.T, "the topic has "+strings.Join(ids, ", "), 2*time.Minute, func() bool {
		found := map[string]bool{}
		err := reader.Read(k.Context(), schemas.Policies, 0, -1, -1, true, func(r *schemas.Record) error {
			found[string(r.Key)] = true
			return nil
		})
		for _, id := range ids {
			if !found[id] {
				return false
			}
		}
		return err == nil
	})
}

func TestAPolicyOfThePastIsKnownByItsID(t *testing.T) {
	t.Parallel()
	k := atKeyboard(t)
	k.types(0, nil, "beat", "1")
	k.sees("first_beat", "history", "1")
	old := k.policyID()
	k.types(0, []string{"online_ttl: 30s → 45s"}, "policy", "set", "online_ttl=45s")
	now := k.policyID()
	k.kept(old, now)
	k.types(0, []string{"policy " + old, "online_ttl           30s", "since the beginning", "now for: nobody"}, "policy", "show", old[:8])
	k.types(0, []string{"online_ttl           45s", "now for: pipeline"}, "policy", "show", now)
	k.types(0, []string{"FIRST IN FORCE", old, "the beginning", now, "online_ttl 45s"}, "policy", "show", "all")
	k.types(0, []string{`"in_force":["pipeline"]`}, "policy", "show", "all", "--output", "jsonl")
	k.types(0, []string{old}, "backtest", "--policy", old, "--policy", "log", "--warm-up", "0s")
	k.types(0, []string{"user 1 was online", "By policy " + old, "online_ttl 30s"}, "explain", "1", "--at", "now")
	k.types(2, []string{"<id>: ", `"xyz" is none`, `"stillhere policy show --help"`}, "policy", "show", "xyz")
	k.types(1, []string{"policy 0123456789ab was never in force here"}, "policy", "show", "0123456789ab")
	k.types(2, []string{"--tenant: an id names one policy"}, "policy", "show", old, "--tenant", "acme")
	k.types(0, []string{"online_ttl: 45s → 30s"}, "policy", "set", "online_ttl=30s")
	k.types(0, []string{"first since the beginning, as the topic of policies says; last since 20", "now for: pipeline"}, "policy", "show", old)
	k.types(0, []string{"LAST (UTC)"}, "policy", "show", "all")
}

func TestAPolicyThatATenantHadIsKnownByItsID(t *testing.T) {
	t.Parallel()
	k := atKeyboard(t, "--ids", "text")
	in := func(words ...string) []string { return append(words, "--tenant", "acme") }
	k.types(0, nil, in("beat", "ann")...)
	k.sees("first_beat", in("history", "ann")...)
	pipeline := k.policyID()
	k.types(0, []string{"in force in all"}, in("policy", "set", "away_ttl=7m")...)
	own := k.policyID("--tenant", "acme")
	k.types(0, []string{own, "tenant acme", pipeline, "pipeline", "away_ttl 7m"}, "policy", "show", "all")
	k.types(0, nil, in("beat", "bob")...)
	k.sees("first_beat", in("history", "bob")...)
	k.types(0, []string{"goes by the policy of the pipeline"}, in("policy", "set", "--remove")...)
	k.kept(pipeline, own)
	k.types(0, []string{"away_ttl             7m0s", "now for: nobody"}, "policy", "show", own)
	k.types(0, []string{`user "bob" of tenant acme was online`, "By policy " + own, "away_ttl 7m0s"}, in("explain", "bob", "--at", "now")...)
	k.types(1, []string{`there is no change of user "bob" of tenant acme at or before 2020-01-01`, "--at: 2020-01-01", "is before the log begins"}, in("explain", "bob", "--at", "2020-01-01")...)
	k.types(1, []string{`there is no change of user "nobody" of tenant acme`}, in("explain", "nobody", "--at", "now")...)
	k.types(2, []string{"--at: the change is found by the user"}, in("explain", "2gVCcZ6TqUq5bkKTo7CqEYvyHr0", "bob", "--at", "now")...)
	k.types(2, []string{"<event-id>: must be given, or a user and --at"}, "explain")
}
