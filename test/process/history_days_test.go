//go:build unix

package process_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// A visit of five days ago, of users of two tenants, and one of today. One tenant then keeps changes of two days.
func TestATenantThatKeepsFewerDaysShowsNothingOlderAndSaysSoAndAnotherOneKeepsAll(t *testing.T) {
	t.Parallel()
	w := newTextWorld(t, "--policy=online_ttl=10m,away_ttl=20m,idle_after=10m") // nobody goes meanwhile
	w.Mode, w.People = testkit.Modes()[1], map[schemas.UserID]schemas.Name{}
	name := "ann, née O'Neil"
	var acme, zeta schemas.UserID
	for tenant, id := range map[string]*schemas.UserID{"acme": &acme, "zeta": &zeta} {
		*id = w.users.ID(tenant, name)
		w.People[*id] = schemas.Name{Tenant: tenant, Text: name}
		w.ids = append(w.ids, id.String())
	}
	both := []schemas.UserID{acme, zeta}
	came := schemas.MillisOf(time.Now().Add(-5 * 24 * time.Hour))
	w.visited(both, came)
	for _, user := range both {
		w.HistoryOf(user, 2)
		w.MustSend(testkit.Beat{User: user, Device: 1, Kind: "web"})
		w.HistoryOf(user, 3)
	}
	stored := []string{"--sqlite", w.sqlite}
	past := func(command, tenant string, words ...string) []string {
		return with([]string{command, "--tenant", tenant}, words, w.kafka, stored)
	}
	then := (came + 1000).String()
	for _, tenant := range []string{"acme", "zeta"} {
		w.says(past("asof", tenant, then, name), `"state":"online"`)
		w.says(past("sessions", tenant, "--from", came.String(), "--output", "csv"), came.String())
	}
	w.says([]string{"tenants", "set", "acme", "history_days=2", "--kafka-brokers", w.Broker}, "are changed")
	testkit.Until(t, "acme shows what is newer than two days, and no more", 2*time.Minute, func() bool { return len(w.History(acme)) == 1 })
	if kept := w.History(acme)[0]; kept.To != "online" || kept.At <= came {
		t.Errorf("acme keeps the change %+v", kept)
	}
	if kept := w.History(zeta); len(kept) != 3 || kept[0].At != came {
		t.Errorf("zeta keeps the changes %+v", kept)
	}
	if w.State(acme) != "online" || w.State(zeta) != "online" {
		t.Errorf("the states are %v", w.States(both...))
	}
	export := func(tenant string) []string {
		return with([]string{"export", name, "--tenant", tenant}, w.kafka, stored)
	}
	if out := w.says(export("acme"), `"type":"change"`); strings.Count(out, `"type":"change"`) != 1 {
		t.Errorf("an export of acme has\n%s", out)
	}
	if out := w.says(export("zeta"), `"type":"change"`); strings.Count(out, `"type":"change"`) != 3 {
		t.Errorf("an export of zeta has\n%s", out)
	}

	_, _, said := w.tool(past("asof", "acme", then, name)...)
	found := regexp.MustCompile(`of tenant "acme": the store keeps its changes from (\S+) on`).FindStringSubmatch(said)
	if now := time.Now(); found == nil || found[1] != store.EdgeOf(now, 2).String() && found[1] != store.EdgeOf(now.Add(-3*time.Minute), 2).String() {
		t.Fatalf("asked for what acme does not keep, asof says %s", said)
	}
	begins := found[1]
	for _, words := range [][]string{
		past("asof", "acme", then), past("asof", "acme", then, name, "bob"),
		past("sessions", "acme", name, "--from", came.String()), past("sessions", "acme", "--from", came.String()),
	} {
		w.fails(words, fmt.Sprintf("of tenant %q: the store keeps its changes from %s on", "acme", begins))
	}
	w.says(past("asof", "zeta", then, name), `"state":"online"`)
	w.says(past("sessions", "zeta", "--from", came.String(), "--output", "csv"), came.String())
	lacks := fmt.Sprintf(`of tenant "acme" the store keeps changes from %s on`, begins)
	everybody := with([]string{"asof", then}, w.kafka, stored)
	if out := w.says(everybody, `"tenant":"zeta"`, lacks); strings.Count(out, "\n") != 1 {
		t.Errorf("known of everybody of then is\n%s", out)
	}
	w.says(with([]string{"sessions", "--from", came.String()}, w.kafka, stored), `"tenant":"zeta"`, lacks)
	replay := past("replay", "acme", "--source", "store", "--from", came.String())
	if out := w.says(replay, lacks); strings.Count(out, "\n") != 1 {
		t.Errorf("a replay of the store has of acme\n%s", out)
	}
	w.says(past("asof", "acme", "now", name), `"state":"online"`)
}

// visited publishes what a detector would have published of a visit of an hour.
func (w *textWorld) visited(users []schemas.UserID, came schemas.Millis) {
	w.Helper()
	producer := kafkatest.Producer(w, kafka.Config{Brokers: []string{w.Broker}})
	var out []schemas.Outgoing
	for _, user := range users {
		visit := []schemas.Transition{
			{From: schemas.Offline, To: schemas.Online, At: came, Cause: schemas.FirstBeat, Version: schemas.NewVersion(1, 0, 1)},
			{From: schemas.Online, To: schemas.Offline, At: came + schemas.Millis(time.Hour.Milliseconds()), Cause: schemas.Bye, Version: schemas.NewVersion(1, 0, 2)},
		}
		for _, t := range visit {
			t.User, t.Name, t.LastSeen, t.LastActive, t.Visibility = user, w.People[user], came, came, schemas.Everyone
			out = append(out, schemas.Outgoing{Topic: schemas.Transitions, Partition: schemas.PartitionOf(user, testkit.DevPartitions), Key: user.Key(), Value: t.Encode()})
		}
	}
	must.Do(w, producer.AppendSync(w.Context(), out...))
}
