package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

// rebuild measures what happens when Redis is emptied under all users online: how long until no
// answer is marked as stale any more, and what was answered meanwhile to somebody who asks all
// the time. Redis is a server of its own process where redis-server is installed, else the
// stand-in.
func rebuild(t *loadtest.T) {
	rig := t.Rig()
	server := startRedis(t, rig)
	roles, users := everyoneOnline(t, rig)
	var probes []schemas.UserID // one of each partition
	for _, part := range (crowd{Count: t.Users, Partitions: t.Partitions}).byPartition() {
		probes = append(probes, part[:min(1, len(part))]...)
	}
	reader := &batchReader{api: roles.API, users: users}
	reading := t.Go(reader.run)
	client := redis.NewClient(&redis.Options{Addr: rig.Redis})
	begun := time.Now()
	t.Check(errors.Join(client.FlushAll(t.Context()).Err(), client.Close()))
	first := true
	t.Measured(func() {
		t.Until(func() string { return "waiting for fresh answers in all partitions" }, func() bool {
			stale, err := anyStale(t.Context(), roles.API, probes)
			if first = first && err == nil && !stale && time.Since(begun) < time.Second; first {
				return false // the loss has not been noticed yet
			}
			return err == nil && !stale
		})
	})
	took := time.Since(begun)
	t.Check(reading.Stop())
	after := &batchReader{api: roles.API, users: users}
	if !after.allOnline(t.Context()) {
		t.Fatalf("after the rebuild only %d of %d users are online", after.online, t.Users)
	}
	t.Add("from the loss to fresh answers in all partitions", took.Seconds(), "s").AtMost(60)
	t.Add("users asked meanwhile", float64(reader.asked), "answers")
	t.Add("of these wrongly not online", float64(reader.wrong), "answers").LessIsBetter()
	t.Add("requests that were not answered", float64(reader.failed), "requests").LessIsBetter()
	t.Note(fmt.Sprintf("%s, emptied by FLUSHALL; %d users online, all asked again after it: all right.", server.what, t.Users))
	if reader.wrong > 0 {
		t.Fatalf("%d answers about users who are online were wrong", reader.wrong)
	}
}

// everyoneOnline runs every role and waits until all users are online and the stores have them:
// the durable store answers while Redis is filled.
func everyoneOnline(t *loadtest.T, rig *loadtest.Rig) (*loadtest.Roles, []schemas.UserID) {
	roles := rig.AllRoles(func(c *app.Config) { c.Policy = loadtest.Stay() })
	users := crowd{Count: t.Users, Partitions: t.Partitions}
	reader := &batchReader{api: roles.API, users: slices.Concat(users.byPartition()...)}
	writeAll(t, rig, users.frames(false))
	t.Until(func() string { return fmt.Sprintf("%d of %d users are online, and readiness", reader.online, t.Users) },
		func() bool { return reader.allOnline(t.Context()) && roles.CaughtUp(t.Context()) })
	return roles, reader.users
}

// anyStale reports whether the answer about one of the users is stale or not online.
func anyStale(ctx context.Context, api loadtest.API, users []schemas.UserID) (bool, error) {
	for _, user := range users {
		p, err := api.Presence(ctx, user)
		if err != nil || p.StaleSince != 0 || p.State == nil || *p.State != "online" {
			return true, err
		}
	}
	return false, nil
}

// batchReader asks for users by the batch.
type batchReader struct {
	api                          loadtest.API
	users                        []schemas.UserID
	online, asked, wrong, failed int
}

// run asks again and again until ctx ends.
func (b *batchReader) run(ctx context.Context) error {
	for at := 0; ctx.Err() == nil; at = (at + batchLength) % len(b.users) {
		b.batch(ctx, b.users[at:min(at+batchLength, len(b.users))])
	}
	return nil
}

const batchLength = 500

// allOnline asks for all once and reports whether all are online; it stops at the first who is not.
func (b *batchReader) allOnline(ctx context.Context) bool {
	b.online = 0
	for some := range slices.Chunk(b.users, batchLength) {
		wrong, failed := b.wrong, b.failed
		if b.batch(ctx, some); b.wrong > wrong || b.failed > failed {
			return false
		}
		b.online += len(some)
	}
	return true
}

func (b *batchReader) batch(ctx context.Context, some []schemas.UserID) {
	var states map[string]string
	err := b.api.Get(ctx, batchPath(some), &states)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		b.failed++
	default:
		for _, state := range states {
			if b.asked++; state != "online" {
				b.wrong++
			}
		}
	}
}
