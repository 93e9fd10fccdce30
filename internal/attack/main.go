// Command attack attacks a running pipeline from four processes, beside 1,000 honest
// users, and prints what these felt before, during and after. `.ci/attack` runs it.
//
// # Flow
//
//	driver ─▶ stillhere dev, with authentication ◀─ attack -as users | gateways | strangers | poison
//	   └─ honest users: beats, reads, a stream ─▶ errors, p50 and p99 of three phases
//
// The driver starts everything and ends it. Attackers are paced: what is tried is whether
// little work of theirs makes much work or holds something, not whether two cores can be
// kept busy. It exits 1 when an honest request failed, when a p99 under attack was ten
// times its quiet value, or when memory did not come back.
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
		err = attackAs(ctx, *as, at)
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
var roles = []string{"users", "gateways", "strangers", "poison"}

func drive(ctx context.Context, program string, quiet, attacked time.Duration) (err error) {
	dir, err := os.MkdirTemp("", "stillhere-attack-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	at := place{freeAddress(), freeAddress(), freeAddress()}
	end, err := startPipeline(ctx, program, dir, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()

	living, gone := context.WithCancel(ctx)
	honest := newHonest(at)
	var crowd sync.WaitGroup
	crowd.Go(func() { honest.live(living) })
	defer crowd.Wait()
	defer gone()
	honest.settle(ctx)

	before := honest.phase(ctx, "before", quiet)
	processes, err := startAttackers(ctx, at, attacked)
	if err != nil {
		return err
	}
	during := honest.phase(ctx, "during", attacked)
	for _, p := range processes {
		err = errors.Join(err, p.Wait())
	}
	after := honest.phase(ctx, "after", quiet)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	fmt.Printf("\n| phase | what | requests | errors | p50 | p99 | worst |\n|---|---|---|---|---|---|---|\n")
	for _, p := range []*phase{before, during, after} {
		p.print()
	}
	fmt.Printf("\nmemory: %d MB before, %d MB at the end of the attack, %d MB after; goroutines %d, %d, %d\n",
		before.megabytes, during.megabytes, after.megabytes, before.goroutines, during.goroutines, after.goroutines)
	return errors.Join(during.judge(before), after.judge(before), memoryBack(before, after))
}

// startPipeline starts everything in one process, as production wires it, and returns when
// it is ready.
func startPipeline(ctx context.Context, program, dir string, at place) (end func() error, err error) {
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
		process := exec.CommandContext(ctx, self, "-as", role, "-doors", at.doors, "-admin", at.admin, "-kafka", at.kafka, "-for", attacked.String())
		process.Stdout, process.Stderr = os.Stdout, os.Stderr
		if err := process.Start(); err != nil {
			return all, fmt.Errorf("starting %s: %w", role, err)
		}
		all = append(all, process)
	}
	return all, nil
}

// attackAs attacks for as long as -for says.
func attackAs(ctx context.Context, role string, at place) error {
	attackers := map[string]func(context.Context, place, *tally){"users": users, "gateways": gateways, "strangers": strangers, "poison": poison}
	attack := attackers[role]
	if attack == nil {
		return fmt.Errorf("-as: must be one of %s", strings.Join(roles, ", "))
	}
	length, err := time.ParseDuration(flag.Lookup("for").Value.String())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	results := &tally{of: map[string]int{}}
	attack(ctx, at, results)
	fmt.Printf("%s: %s\n", role, results)
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
