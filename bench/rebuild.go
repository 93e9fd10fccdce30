package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

// rebuild measures what happens when Redis is emptied under all users online: how long until no
// answer is said to be stale any more, and what was answered meanwhile to somebody who asks all
// the time. Redis is a server of its own process where redis-server is installed, else the
// stand-in.
func rebuild(ctx context.Context, o *loadtest.Options, r *loadtest.Result) (err error) {
	rig, err := loadtest.NewRig(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	server, err := startRedis(ctx, rig)
	if err != nil {
		return err
	}
	defer server.stop()
	roles, reader, err := everyoneOnline(ctx, o, rig)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, roles.Close()) }()

	var probes []schemas.UserID // one of each partition
	for _, part := range (loadtest.Users{Count: o.Users, Partitions: o.Partitions}).ByPartition() {
		probes = append(probes, part[:min(1, len(part))]...)
	}
	asks, stopAsking := context.WithCancel(ctx)
	defer stopAsking()
	var background sync.WaitGroup
	background.Go(func() { reader.run(asks) })
	client := redis.NewClient(&redis.Options{Addr: rig.Redis})
	begun := time.Now()
	if err := errors.Join(client.FlushAll(ctx).Err(), client.Close()); err != nil {
		return err
	}
	first := true
	err = o.Measured(func() error {
		return o.Until(ctx, func() string { return "waiting for fresh answers in all partitions" }, func() bool {
			stale, err := anyStale(ctx, roles.API, probes)
			if first = first && err == nil && !stale && time.Since(begun) < time.Second; first {
				return false // the loss has not been noticed yet
			}
			return err == nil && !stale
		})
	})
	took := time.Since(begun)
	stopAsking()
	background.Wait()
	if err != nil {
		return err
	}
	after := &batchReader{api: roles.API, users: reader.users}
	if !after.allOnline(ctx) {
		return fmt.Errorf("after the rebuild only %d of %d users are online", after.online, o.Users)
	}
	r.Add("from the loss to fresh answers in all partitions", took.Seconds(), "s").AtMost(60)
	r.Add("users asked meanwhile", float64(reader.asked), "answers")
	r.Add("of these wrongly said not to be online", float64(reader.wrong), "answers").LessIsBetter()
	r.Add("requests that were not answered", float64(reader.failed), "requests").LessIsBetter()
	r.Note(fmt.Sprintf("%s, emptied by FLUSHALL; %d users online, all asked again after it: all right.", server.what, o.Users))
	if reader.wrong > 0 {
		return fmt.Errorf("%d answers said of users who are online that they are not", reader.wrong)
	}
	return nil
}

// everyoneOnline runs every role and waits until all users are online and the stores have them:
// the durable store answers while Redis is filled.
func everyoneOnline(ctx context.Context, o *loadtest.Options, rig *loadtest.Rig) (*loadtest.Roles, *batchReader, error) {
	roles, err := rig.AllRoles(ctx, func(c *app.Config) { c.Policy = loadtest.Stay() })
	if err != nil {
		return nil, nil, err
	}
	users := loadtest.Users{Count: o.Users, Partitions: o.Partitions}
	reader := &batchReader{api: roles.API}
	for _, part := range users.ByPartition() {
		reader.users = append(reader.users, part...)
	}
	err = rig.Write(ctx, users.Frames(false))
	if err == nil {
		err = o.Until(ctx, func() string { return fmt.Sprintf("%d of %d users are online, and readiness", reader.online, o.Users) },
			func() bool { return reader.allOnline(ctx) && roles.CaughtUp(ctx) })
	}
	if err != nil {
		return nil, nil, errors.Join(err, roles.Close())
	}
	return roles, &batchReader{api: roles.API, users: reader.users}, nil
}

// anyStale asks whether one of the users is said to be stale, or not online.
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

// run asks round and round until ctx ends.
func (b *batchReader) run(ctx context.Context) {
	for at := 0; ctx.Err() == nil; at = (at + batchLength) % len(b.users) {
		b.batch(ctx, b.users[at:min(at+batchLength, len(b.users))])
	}
}

const batchLength = 500

// allOnline asks for all once and tells whether all are online; it stops at the first who is not.
func (b *batchReader) allOnline(ctx context.Context) bool {
	b.online = 0
	for at := 0; at < len(b.users); at += batchLength {
		some := b.users[at:min(at+batchLength, len(b.users))]
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
	err := b.api.Get(ctx, loadtest.BatchPath(some), &states)
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
