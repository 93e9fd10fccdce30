// Command attack attacks a running pipeline from four processes, beside 1,000 honest
// users, and prints what these felt before, during and after. `.ci/attack` runs it.
//
// # Flow
//
//	driver ─▶ stillhere dev, with authentication, and a Redis server ◀─ attack -as users | gateways | strangers | poison
//	   └─ honest users: beats, reads, a stream ─▶ errors, p50 and p99 of three phases
//
// The driver starts everything and ends it. Attackers are paced: what is tried is whether
// little work of theirs makes much work or holds something, not whether two cores can be
// kept busy. Attackers have machines of their own; here they share one with the server, so
// they run at nice 19, and what is measured is the server's work, not theirs. So that they
// cannot be too slow to attack, each has a least number of attempts a second. It exits 1
// when an honest request failed, when a p99 under attack was ten times its quiet value,
// when memory did not come back, or when the attack was too weak.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/schemas"
)

const secret = "the secret of one run of the attacks, 32 bytes or more"

// place is where the pipeline is.
type place struct{ doors, admin, kafka string }

func main() {
	as := flag.String("as", "", "attack as users, gateways, strangers or poison; empty: be the driver")
	var at place
	flag.StringVar(&at.doors, "doors", "", "address of the doors")
	flag.StringVar(&at.admin, "admin", "", "address of the admin port")
	flag.StringVar(&at.kafka, "kafka", "", "address of Kafka")
	program := flag.String("program", "", "the binary of stillhere, for the driver")
	quiet := flag.Duration("quiet", 30*time.Second, "how long honest users are alone, before and after")
	attacked := flag.Duration("for", 10*time.Minute, "how long they are attacked")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *as != "" {
		err = attackAs(ctx, *as, at, *attacked)
	} else {
		err = drive(ctx, *program, *quiet, *attacked)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "attack:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has run
	}
}

// roles of the attackers, each a process.
var roles = []role{{"users", users, 65}, {"gateways", gateways, 40}, {"strangers", strangers, 125}, {"poison", poison, 6}}

// role is one kind of attacker. With fewer attempts a second than least, which is a third of
// what it makes of an idle machine, it has not attacked.
type role struct {
	name   string
	attack func(context.Context, place, *tally)
	least  int
}

// attackersNice is how low the attackers' priority is beside the server's.
const attackersNice = "19"

func drive(ctx context.Context, program string, quiet, attacked time.Duration) (err error) {
	dir, err := os.MkdirTemp("", "stillhere-attack-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	at := place{freeAddress(), freeAddress(), freeAddress()}
	redis, endRedis, err := startRedis(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endRedis()) }()
	end, err := startPipeline(ctx, program, dir, at, redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()

	living, gone := context.WithCancel(ctx)
	honest := newHonest(at)
	var users sync.WaitGroup
	users.Go(func() { honest.live(living) })
	defer users.Wait()
	defer gone()
	honest.settle(ctx)

	before := honest.phase(ctx, "before", quiet)
	processes, err := startAttackers(ctx, at, attacked)
	if err != nil {
		return err
	}
	during := honest.phase(ctx, "during", attacked)
	var theirs time.Duration
	for i, p := range processes {
		if ended := p.Wait(); ended != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", roles[i].name, ended))
		}
		theirs += p.ProcessState.UserTime() + p.ProcessState.SystemTime()
	}
	after := honest.phase(ctx, "after", quiet)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	fmt.Printf("\n| phase | what | requests | errors | p50 | p99 | worst |\n|---|---|---|---|---|---|---|\n")
	for _, p := range []*phase{before, during, after} {
		p.print()
	}
	fmt.Printf("\nheap in use: %d MB before, %d MB at the end of the attack, %d MB after; resident %d, %d, %d MB; goroutines %d, %d, %d\n",
		before.heap, during.heap, after.heap, before.resident, during.resident, after.resident, before.goroutines, during.goroutines, after.goroutines)
	fmt.Printf("CPU: the server took %.0f%% of a core before, %.0f%% during, %.0f%% after; the attackers, at nice %s, %.0f%%; the machine has %d cores\n",
		before.cpu, during.cpu, after.cpu, attackersNice, 100*theirs.Seconds()/attacked.Seconds(), runtime.NumCPU())
	return errors.Join(during.judge(before), after.judge(before), memoryBack(before, after))
}

// startRedis starts a Redis server, as production has one, where one is installed. Without,
// address is empty, and the pipeline's own stand-in serves, which has one lock for all.
func startRedis(ctx context.Context, dir string) (address string, end func() error, err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		fmt.Println("redis-server is not installed: the stand-in within dev serves in its place, which is slower")
		return "", func() error { return nil }, nil
	}
	address = freeAddress()
	_, port, _ := net.SplitHostPort(address)
	server := exec.CommandContext(ctx, path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir)
	if err := server.Start(); err != nil {
		return "", nil, fmt.Errorf("starting %s: %w", path, err)
	}
	end = func() error { return errors.Join(server.Process.Signal(syscall.SIGTERM), server.Wait()) }
	for deadline := time.Now().Add(time.Minute); ; pause(ctx, 50*time.Millisecond) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return address, end, conn.Close()
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return "", nil, errors.Join(fmt.Errorf("%s does not answer: %w", path, err), end())
		}
	}
}

// startPipeline starts everything in one process, as production wires it, and returns when
// it is ready. redis is a Redis server; empty: one within the process.
func startPipeline(ctx context.Context, program, dir string, at place, redis string) (end func() error, err error) {
	file := filepath.Join(dir, "secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	server := exec.CommandContext(ctx, program, "dev", "--data-dir", filepath.Join(dir, "data"), "--listen", at.doors, "--admin", at.admin,
		"--kafka-listen", at.kafka, "--auth-secret-file", file)
	if redis != "" {
		server.Args = append(server.Args, "--redis", redis)
	}
	server.Stderr = log
	if err := server.Start(); err != nil {
		return nil, err
	}
	end = func() error {
		err := server.Process.Signal(syscall.SIGTERM)
		return errors.Join(err, server.Wait(), log.Close())
	}
	deadline := time.Now().Add(time.Minute)
	for {
		if _, err := at.look(ctx, "/readyz"); err == nil {
			return end, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			said, _ := os.ReadFile(log.Name())
			return nil, errors.Join(fmt.Errorf("the pipeline is not ready: %s", said), end())
		}
		pause(ctx, 100*time.Millisecond)
	}
}

func startAttackers(ctx context.Context, at place, attacked time.Duration) ([]*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var all []*exec.Cmd
	for _, role := range roles {
		process := exec.CommandContext(ctx, "nice", "-n", attackersNice, self, "-as", role.name, "-doors", at.doors, "-admin", at.admin, "-kafka", at.kafka, "-for", attacked.String())
		process.Stdout, process.Stderr = os.Stdout, os.Stderr
		if err := process.Start(); err != nil {
			return all, fmt.Errorf("starting %s: %w", role.name, err)
		}
		all = append(all, process)
	}
	return all, nil
}

// attackAs attacks for as long as -for says.
func attackAs(ctx context.Context, name string, at place, length time.Duration) error {
	i := slices.IndexFunc(roles, func(r role) bool { return r.name == name })
	if i < 0 {
		return fmt.Errorf("-as: there is no attacker %q", name)
	}
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	results := &tally{of: map[string]int{}}
	roles[i].attack(ctx, at, results)
	fmt.Printf("%s: %s\n", name, results)
	if made, least := results.sum(), int(float64(roles[i].least)*length.Seconds()); made < least {
		return fmt.Errorf("the attack was too weak to prove anything: %d attempts in %s, must be at least %d; the machine is too busy", made, length, least)
	}
	return nil
}

// tokenOf is a token that lasts longer than any run.
func tokenOf(who auth.Caller) string {
	c := auth.Defaults()
	c.Secret = keys.Secret{Value: secret}
	who.Until = time.Now().Add(24 * time.Hour)
	token, err := auth.Issue(c, who, time.Now())
	if err != nil {
		panic(err) // the settings are this program's own
	}
	return token
}

func userToken(user schemas.UserID) string {
	return tokenOf(auth.Caller{User: user, Scopes: []string{auth.Beat, auth.Read}})
}

// freeAddress is one that nobody listens on now.
func freeAddress() string {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err) // no loopback, no attack
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
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

// gauge is a metric without labels of the pipeline; 0 when it does not tell.
func (at place) gauge(ctx context.Context, name string) float64 {
	text, err := at.look(ctx, "/metrics")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			value, _ := strconv.ParseFloat(rest, 64)
			return value
		}
	}
	return 0
}

// look asks the admin port.
func (at place) look(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.admin+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("%s: %s", path, answer.Status))
	}
	return string(text), errors.Join(err, answer.Body.Close())
}
