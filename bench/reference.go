package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/stillhere/stillhere/tools/loadtest"
)

// reference is the design that most begin with: one key per user, set with a time to live at
// every heartbeat, so that an expired key means offline. It is given every advantage that does
// not change it: short keys, commands in pipelines, a client that does nothing else, no
// persistence but what the server was started with.
type reference struct{ *redis.Client }

func dialReference(addr string) reference {
	return reference{redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: loadtest.Timeout})}
}

// referenceVersion is the version of a Redis. It refuses one that holds anything: a bench has no
// business there.
func referenceVersion(ctx context.Context, addr string) (string, error) {
	r := dialReference(addr)
	defer func() { _ = r.Close() }() // nothing is on its way
	size, err := r.DBSize(ctx).Result()
	if err != nil {
		return "", fmt.Errorf("asking the Redis of --redis: %w", err)
	}
	if size != 0 {
		return "", fmt.Errorf("the Redis at %s holds %d keys; give --redis one that is empty and for nothing else, e.g.: redis-server --port 6390 --save ''", addr, size)
	}
	return r.info(ctx, "server", "redis_version")
}

// info is a field of INFO.
func (r reference) info(ctx context.Context, section, name string) (string, error) {
	text, err := r.Info(ctx, section).Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && key == name {
			return value, nil
		}
	}
	return "", fmt.Errorf("the Redis tells no %s", name)
}

const (
	pipelined = 1000 // commands to a pipeline
	inFlight  = 4    // pipelines at a time
)

// each runs a command for the keys of n users, in pipelines.
func (r reference) each(ctx context.Context, n int, command func(redis.Pipeliner, string)) error {
	all, running := errgroup.WithContext(ctx)
	all.SetLimit(inFlight)
	for first := 0; first < n && running.Err() == nil; first += pipelined {
		all.Go(func() error {
			_, err := r.Pipelined(running, func(p redis.Pipeliner) error {
				for user := first; user < min(first+pipelined, n); user++ {
					command(p, "p:"+strconv.Itoa(user+1))
				}
				return nil
			})
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return fmt.Errorf("measuring the reference: %w", err)
	}
	return ctx.Err()
}

// forget deletes the keys, and closes the client.
func (r reference) forget(n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), loadtest.Timeout)
	defer cancel()
	return errors.Join(r.each(ctx, n, func(p redis.Pipeliner, key string) { p.Unlink(ctx, key) }), r.Close())
}

// referenceBeats measures beats a second and bytes a user, and sets the result's figures of
// beats and memory against them. Without --redis it does nothing.
func (l *lab) referenceBeats(ctx context.Context, o *loadtest.Options, result *loadtest.Result, users int) (err error) {
	if l.Redis == "" {
		return nil
	}
	r := dialReference(l.Redis)
	defer func() { err = errors.Join(err, r.forget(users)) }()
	before, err := r.used(ctx)
	if err != nil {
		return err
	}
	set := func(p redis.Pipeliner, key string) { p.Set(ctx, key, "1", 600*time.Second) }
	if err := r.each(ctx, users, set); err != nil {
		return err
	}
	after, err := r.used(ctx)
	if err != nil {
		return err
	}
	begun, beats := time.Now(), 0
	for time.Since(begun) < o.Length() {
		o.Progress.Say("  reference: %d beats", beats)
		if err := r.each(ctx, users, set); err != nil {
			return err
		}
		beats += users
	}
	rate := float64(beats) / time.Since(begun).Seconds()
	for i := range result.Figures {
		switch f := &result.Figures[i]; f.Unit {
		case "M beats/s":
			f.Against(rate / 1e6)
		case "B/user":
			f.Against((after - before) / float64(users))
		}
	}
	return nil
}

// used is the memory that the server has allocated, bytes.
func (r reference) used(ctx context.Context) (float64, error) {
	text, err := r.info(ctx, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// referenceSilence sets keys that all expire at one instant, and tells how late the
// notifications of that come. Without --redis it does nothing.
func (l *lab) referenceSilence(ctx context.Context, o *loadtest.Options) (late loadtest.Spread, err error) {
	if l.Redis == "" {
		return nil, nil
	}
	r := dialReference(l.Redis)
	defer func() { err = errors.Join(err, r.forget(o.Users)) }()
	const setting = "notify-keyspace-events"
	old, err := r.ConfigGet(ctx, setting).Result()
	if err == nil {
		err = r.ConfigSet(ctx, setting, "Ex").Err()
	}
	if err != nil {
		return nil, fmt.Errorf("measuring the reference: %w", err)
	}
	defer func() { err = errors.Join(err, r.ConfigSet(context.WithoutCancel(ctx), setting, old[setting]).Err()) }()
	events := r.Subscribe(ctx, "__keyevent@0__:expired")
	defer func() { _ = events.Close() }() // nothing is on its way
	if _, err := events.Receive(ctx); err != nil {
		return nil, fmt.Errorf("measuring the reference: %w", err)
	}
	// Time enough to set them all before.
	silent := time.Now().Add(2*time.Second + time.Duration(o.Users)*10*time.Microsecond)
	if err := r.each(ctx, o.Users, func(p redis.Pipeliner, key string) { p.Do(ctx, "SET", key, "1", "PXAT", silent.UnixMilli()) }); err != nil {
		return nil, err
	}
	if time.Now().After(silent) {
		return nil, errors.New("measuring the reference: the Redis is too slow to set all keys before they expire")
	}
	for len(late) < o.Users {
		o.Progress.Say("  reference: %d of %d keys have expired", len(late), o.Users)
		message, err := events.ReceiveTimeout(ctx, loadtest.Timeout)
		if err != nil {
			return nil, fmt.Errorf("measuring the reference: %d of %d keys expired: %w", len(late), o.Users, err)
		}
		if _, ok := message.(*redis.Message); ok {
			late = append(late, time.Since(silent))
		}
	}
	slices.Sort(late)
	return late, nil
}

// redisServer is the Redis of a bench.
type redisServer struct {
	what string
	pid  int // 0: the stand-in
	stop func()
}

// startRedis replaces the stand-in of a rig by a redis-server, where one is installed.
func startRedis(ctx context.Context, rig *loadtest.Rig) (*redisServer, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return &redisServer{what: "The Redis stand-in", stop: func() {}}, nil //nolint:nilerr // then it is the stand-in
	}
	address, err := loadtest.FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting redis-server: %w", err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			rig.Redis = address
			return &redisServer{what: "A redis-server", pid: command.Process.Pid, stop: func() {
				_ = command.Process.Kill()
				_ = command.Wait() // tells of the kill
			}}, nil
		}
	}
	return nil, errors.Join(errors.New("redis-server does not start"), command.Wait())
}
