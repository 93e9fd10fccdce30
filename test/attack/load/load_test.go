//go:build unix

package load_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

const secret = "the secret of one run of the attacks, 32 bytes or more"

// target is where the pipeline listens.
type target struct{ api, admin, kafka string }

var (
	attacked = flag.Duration("attack.for", 0, "how long the honest users are attacked; 0: skip the test")
	quiet    = flag.Duration("attack.quiet", 30*time.Second, "how long they are not attacked, before and after")
	as       = flag.String("attack.as", "", "this process is an attacker: users, gateways, anonymous or poison")
	at       = flag.String("attack.at", "", "what an attacker attacks: addresses of the API, the admin port and Kafka, with commas")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *as == "" {
		testkit.Main(m)
	}
	if err := attackAs(*as, *at, *attacked); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", *as, err)
		os.Exit(1)
	}
}

// attackers are processes. With fewer attempts a second than least, which is a third of what
// it makes of an idle machine, an attacker has not attacked.
var attackers = map[string]struct {
	attack func(context.Context, target, *tally)
	least  float64
}{"users": {users, 65}, "gateways": {gateways, 40}, "anonymous": {anonymous, 125}, "poison": {poison, 6}}

// attackersNice is how low the attackers' priority is beside the server's.
const attackersNice = "19"

func TestAttacksFromFourProcessesDoNotHarmHonestUsers(t *testing.T) {
	if *attacked == 0 {
		t.Skip("takes minutes of an idle machine: .ci/attack runs it")
	}
	file := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(file, []byte(secret), 0o600))
	server := testkit.NewDev(t, "--auth-secret-file", file, "--redis", redistest.Own(t).Addr)
	server.Up()

	honest := newHonest(server)
	living, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() { defer close(left); honest.live(living) }()
	defer func() { leave(); <-left }()
	honest.settle(t.Context())

	before := honest.phase(t.Context(), "before", *quiet)
	processes := map[string]*exec.Cmd{}
	for name := range attackers {
		p := exec.CommandContext(t.Context(), "nice", "-n", attackersNice, os.Args[0], "-attack.as", name,
			"-attack.at", strings.Join([]string{server.Listen, server.Admin, server.Broker}, ","), "-attack.for", attacked.String())
		p.Stdout, p.Stderr = os.Stdout, os.Stderr
		must.Do(t, p.Start())
		processes[name] = p
	}
	during := honest.phase(t.Context(), "during", *attacked)
	var theirs time.Duration
	for name, p := range processes {
		if err := p.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		theirs += p.ProcessState.UserTime() + p.ProcessState.SystemTime()
	}
	after := honest.phase(t.Context(), "after", *quiet)

	fmt.Printf("\n| phase | what | requests | errors | p50 | p99 | worst |\n|---|---|---|---|---|---|---|\n")
	for _, p := range []*phase{before, during, after} {
		p.print()
	}
	fmt.Printf("\nheap in use: %d MB before, %d MB at the end of the attack, %d MB after; resident %d, %d, %d MB; goroutines %d, %d, %d\n",
		before.heap, during.heap, after.heap, before.resident, during.resident, after.resident, before.goroutines, during.goroutines, after.goroutines)
	fmt.Printf("CPU: the server took %.0f%% of a core before, %.0f%% during, %.0f%% after; the attackers, at nice %s, %.0f%%; the machine has %d cores\n",
		before.cpu, during.cpu, after.cpu, attackersNice, 100*theirs.Seconds()/attacked.Seconds(), runtime.NumCPU())
	during.judge(t, before)
	after.judge(t, before)
	memoryBack(t, before, after)
}

// attackAs is the main function of an attacker.
func attackAs(name, addresses string, length time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	var to target
	if parts := strings.Split(addresses, ","); len(parts) == 3 {
		to = target{parts[0], parts[1], parts[2]}
	}
	results := &tally{of: map[string]int{}}
	attackers[name].attack(ctx, to, results)
	fmt.Printf("%s: %s\n", name, results)
	if made, least := results.sum(), int(attackers[name].least*length.Seconds()); made < least {
		return fmt.Errorf("the attack was too weak to prove anything: %d attempts in %s, must be at least %d; the machine is too busy", made, length, least)
	}
	return nil
}

// tokenOf is a token that lasts longer than any run.
func tokenOf(caller auth.Caller) string {
	c := auth.Defaults()
	c.Secret = keys.Secret{Value: secret}
	caller.Until = time.Now().Add(24 * time.Hour)
	token, err := auth.Issue(c, caller, time.Now())
	if err != nil {
		panic(err) // the settings are this test's own
	}
	return token
}

func userToken(user schemas.UserID) string {
	return tokenOf(auth.Caller{User: user, Scopes: []string{auth.Beat, auth.Read}})
}

// pause waits, less when ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
