package main

import (
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
	return "", fmt.Errorf("the Redis reports no %s", name)
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
func (l *lab) referenceBeats(t *loadtest.T, users int) {
	if l.Redis == "" {
		return
	}
	ctx, r := t.Context(), dialReference(l.Redis)
	t.Cleanup(func() error { return r.forget(users) })
	before, err := r.used(ctx)
	t.Check(err)
	set := func(p redis.Pipeliner, key string) { p.Set(ctx, key, "1", 600*time.Second) }
	t.Check(r.each(ctx, users, set))
	after, err := r.used(ctx)
	t.Check(err)
	begun, beats := time.Now(), 0
	for time.Since(begun) < t.Length() {
		t.Progress.Say("  reference: %d beats", beats)
		t.Check(r.each(ctx, users, set))
		beats += users
	}
	rate := float64(beats) / time.Since(begun).Seconds()
	for i := range t.Figures {
		switch f := &t.Figures[i]; f.Unit {
		case "M beats/s":
			f.Against(rate / 1e6)
		case "B/user":
			f.Against((after - before) / float64(users))
		}
	}
}

// used is the memory that the server has allocated, bytes.
func (r reference) used(ctx context.Context) (float64, error) {
	text, err := r.info(ctx, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// referenceSilence sets keys that all expire at one instant, and returns how late the
// notifications of that come, sorted. Without --redis it does nothing.
func (l *lab) referenceSilence(t *loadtest.T) (late loadtest.Spread) {
	if l.Redis == "" {
		return nil
	}
	ctx, r := t.Context(), dialReference(l.Redis)
	t.Cleanup(func() error { return r.forget(t.Users) })
	const setting = "notify-keyspace-events"
	old, err := r.ConfigGet(ctx, setting).Result()
	t.Check(err)
	t.Check(r.ConfigSet(ctx, setting, "Ex").Err())
	t.Cleanup(func() error { return r.ConfigSet(context.WithoutCancel(ctx), setting, old[setting]).Err() })
	events := r.Subscribe(ctx, "__keyevent@0__:expired")
	t.Cleanup(events.Close)
	_, err = events.Receive(ctx)
	t.Check(err)
	// Time enough to set them all before.
	silent := time.Now().Add(2*time.Second + time.Duration(t.Users)*10*time.Microsecond)
	t.Check(r.each(ctx, t.Users, func(p redis.Pipeliner, key string) { p.Do(ctx, "SET", key, "1", "PXAT", silent.UnixMilli()) }))
	if time.Now().After(silent) {
		t.Fatalf("measuring the reference: the Redis is too slow to set all keys before they expire")
	}
	for len(late) < t.Users {
		t.Progress.Say("  reference: %d of %d keys have expired", len(late), t.Users)
		message, err := events.ReceiveTimeout(ctx, loadtest.Timeout)
		if err != nil {
			t.Fatalf("measuring the reference: %d of %d keys expired: %w", len(late), t.Users, err)
		}
		if _, ok := message.(*redis.Message); ok {
			late = append(late, time.Since(silent))
		}
	}
	slices.Sort(late)
	return late
}

// redisServer is the Redis of a bench.
type redisServer struct {
	what string
	pid  int // 0: the stand-in
}

// startRedis replaces the stand-in of a rig by a redis-server, where one is installed.
func startRedis(t *loadtest.T, rig *loadtest.Rig) redisServer {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return redisServer{what: "The Redis stand-in"}
	}
	address := t.FreeAddress()
	_, port, err := net.SplitHostPort(address)
	t.Check(err)
	command := exec.CommandContext(t.Context(), path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	t.Check(command.Start())
	t.Cleanup(func() error {
		_ = command.Wait() // reports the kill
		return nil
	})
	t.Cleanup(command.Process.Kill)
	client := redis.NewClient(&redis.Options{Addr: address})
	t.Until(func() string { return "waiting for redis-server" }, func() bool { return client.Ping(t.Context()).Err() == nil })
	t.Check(client.Close())
	rig.Redis = address
	return redisServer{what: "A redis-server", pid: command.Process.Pid}
}
