package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The reference is the design that most begin with: one key per user, set with a
// time to live at every heartbeat, so that an expired key means offline. It is given
// every advantage that does not change it: short keys, commands in pipelines, a
// client that does nothing else, no persistence but what the server was started
// with.

// lookAtRedis tells the version, and refuses a Redis that holds anything: a bench
// has no business there.
func lookAtRedis(ctx context.Context, addr string) (version string, err error) {
	r, err := dialRedis(ctx, addr)
	if err != nil {
		return "", err
	}
	defer r.close()
	size, err := r.ask("DBSIZE")
	if err != nil {
		return "", err
	}
	if size != int64(0) {
		return "", fmt.Errorf("the Redis at %s holds %v keys; give --redis one that is empty and for nothing else, e.g.: redis-server --port 6390 --save ''", addr, size)
	}
	return r.info("server", "redis_version")
}

// info is a field of INFO.
func (r *resp) info(section, name string) (string, error) {
	answer, err := r.ask("INFO", section)
	if err != nil {
		return "", err
	}
	text, _ := answer.(string)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && key == name {
			return value, nil
		}
	}
	return "", fmt.Errorf("the Redis tells no %s", name)
}

// key is the user's.
func key(user int) string { return "p:" + strconv.Itoa(user+1) }

const (
	pipelined = 1000 // commands to a pipeline
	inFlight  = 4    // pipelines that wait for their answers
)

// each runs a command for users 0 … n−1 in pipelines.
func (r *resp) each(n int, send func(user int)) error {
	flights := make(chan int, inFlight)
	read := make(chan error, 1)
	go func() {
		for count := range flights {
			for range count {
				if _, err := r.read(); err != nil {
					_ = r.conn.Close() // ends the writing
					for range flights {
					}
					read <- err
					return
				}
			}
		}
		read <- nil
	}()
	var written error
	for first := 0; first < n && written == nil; first += pipelined {
		last := min(first+pipelined, n)
		for user := first; user < last; user++ {
			send(user)
		}
		if written = r.out.Flush(); written == nil {
			flights <- last - first
		}
	}
	close(flights)
	if err := joined(<-read, written); err != nil {
		return fmt.Errorf("measuring the reference: %w", err)
	}
	return nil
}

// forget deletes the keys.
func (r *resp) forget(n int) error {
	return r.each(n, func(user int) { r.send("UNLINK", key(user)) })
}

// referenceBeats measures beats a second and bytes a user, and sets the result's
// figures of beats and memory against them. Without --redis it does nothing.
func referenceBeats(ctx context.Context, o *Options, result *Result, users int) (err error) {
	if o.Redis == "" {
		return nil
	}
	r, err := dialRedis(ctx, o.Redis)
	if err != nil {
		return err
	}
	defer r.close()
	defer func() { err = joined(err, r.forget(users)) }()
	before, err := r.used()
	if err != nil {
		return err
	}
	set := func(user int) { r.send("SET", key(user), "1", "EX", "600") }
	if err := r.each(users, set); err != nil {
		return err
	}
	after, err := r.used()
	if err != nil {
		return err
	}
	begun, beats := time.Now(), 0
	for time.Since(begun) < o.length() && ctx.Err() == nil {
		o.Progress.Say("  reference: %d beats", beats)
		if err := r.each(users, set); err != nil {
			return err
		}
		beats += users
	}
	rate := float64(beats) / time.Since(begun).Seconds()
	for i := range result.Figures {
		switch f := &result.Figures[i]; f.Unit {
		case "M beats/s":
			f.against(rate / 1e6)
		case "B/user":
			f.against((after - before) / float64(users))
		}
	}
	return ctx.Err()
}

// used is the memory that the server has allocated, bytes.
func (r *resp) used() (float64, error) {
	text, err := r.info("memory", "used_memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// referenceSilence sets keys that all expire at one instant, and tells how late the
// notifications of that come. Without --redis it does nothing.
func referenceSilence(ctx context.Context, o *Options) (late spread, err error) {
	if o.Redis == "" {
		return nil, nil
	}
	r, err := dialRedis(ctx, o.Redis)
	if err != nil {
		return nil, err
	}
	defer r.close()
	restore, err := r.configure("notify-keyspace-events", "Ex")
	if err != nil {
		return nil, err
	}
	defer func() { err = joined(err, restore()) }()
	events, err := dialRedis(ctx, o.Redis)
	if err != nil {
		return nil, err
	}
	defer events.close()
	if _, err := events.ask("SUBSCRIBE", "__keyevent@0__:expired"); err != nil {
		return nil, err
	}
	// Time enough to set them all before.
	silent := time.Now().Add(2*time.Second + time.Duration(o.Users)*10*time.Microsecond)
	at := strconv.FormatInt(silent.UnixMilli(), 10)
	defer func() { err = joined(err, r.forget(o.Users)) }()
	if err := r.each(o.Users, func(user int) { r.send("SET", key(user), "1", "PXAT", at) }); err != nil {
		return nil, err
	}
	if time.Now().After(silent) {
		return nil, errors.New("measuring the reference: the Redis is too slow to set all keys before they expire")
	}
	if err := events.conn.SetReadDeadline(silent.Add(patience)); err != nil {
		return nil, err
	}
	for len(late) < o.Users {
		o.Progress.Say("  reference: %d of %d keys have expired", len(late), o.Users)
		message, err := events.read()
		if err != nil {
			return nil, fmt.Errorf("measuring the reference: %d of %d keys expired: %w", len(late), o.Users, err)
		}
		if parts, ok := message.([]any); ok && len(parts) == 3 && parts[0] == "message" {
			late = append(late, time.Since(silent))
		}
	}
	sorted(late)
	return late, nil
}

// configure changes a setting of the server; restore puts it back.
func (r *resp) configure(name, value string) (restore func() error, err error) {
	answer, err := r.ask("CONFIG", "GET", name)
	if err != nil {
		return nil, err
	}
	old := ""
	if pair, ok := answer.([]any); ok && len(pair) == 2 {
		old, _ = pair[1].(string)
	}
	if _, err := r.ask("CONFIG", "SET", name, value); err != nil {
		return nil, err
	}
	return func() error { _, err := r.ask("CONFIG", "SET", name, old); return err }, nil
}
