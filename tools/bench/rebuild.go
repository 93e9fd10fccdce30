package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/schemas"
)

// benchRebuild measures what happens when Redis is emptied under all users online:
// how long until no answer is said to be stale any more, and what was answered
// meanwhile to somebody who asks all the time. Redis is a server of its own process
// where redis-server is installed, else the stand-in.
func benchRebuild(ctx context.Context, o *Options, r *Result) (err error) {
	if err := checkAlone(ctx, o); err != nil {
		return err
	}
	rig, err := newRig(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, rig.close()) }()
	server, err := rig.startRedis(ctx)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, server.stop()) }()
	url, admin, _, stop, err := rig.everyRoleIn(ctx, func(c *app.Config) { c.Policy = everybody() })
	if err != nil {
		return err
	}
	defer func() { err = joined(err, stop()) }()
	people := crowd{o.Users, o.Partitions}
	if err := rig.write(ctx, people.frames(beatsPerFrame)); err != nil {
		return err
	}
	asking := &asking{url: url, users: people.ids()}
	count := func() string { return fmt.Sprintf("%d of %d users are online, and readiness", asking.online, o.Users) }
	if err := o.until(ctx, count, func() bool { return asking.everybody(ctx) && ready(admin)() && kept(ctx, admin) }); err != nil {
		return err
	}

	redis, err := dialRedis(ctx, rig.redis)
	if err != nil {
		return err
	}
	defer redis.close()
	asks, stopAsking := context.WithCancel(ctx)
	defer stopAsking()
	var background sync.WaitGroup
	*asking = *newAsking(asking)
	background.Go(func() { asking.on(asks) })
	begun := time.Now()
	if _, err := redis.ask("FLUSHALL"); err != nil {
		return err
	}
	probes := people.probes(o.Partitions)
	first := true
	err = o.measured(func() error {
		return o.until(ctx, func() string { return "waiting for fresh answers in all partitions" }, func() bool {
			stale, err := anyStale(ctx, url, probes)
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
	after := newAsking(asking)
	if !after.everybody(ctx) {
		return fmt.Errorf("after the rebuild only %d of %d users are online", after.online, o.Users)
	}
	r.add("from the loss to fresh answers in all partitions", took.Seconds(), "s").atMost(60)
	r.add("users asked meanwhile", float64(asking.asked), "answers")
	r.Figures = append(r.Figures, Figure{Name: "of these wrongly said not to be online", Value: float64(asking.wrong), Unit: "answers", Less: true})
	r.Figures = append(r.Figures, Figure{Name: "requests that were not answered", Value: float64(asking.failed), Unit: "requests", Less: true})
	r.note(fmt.Sprintf("%s, emptied by FLUSHALL; %d users online, all asked again after it: all right.", server.what, o.Users))
	if asking.wrong > 0 {
		return fmt.Errorf("%d answers said of users who are online that they are not", asking.wrong)
	}
	return nil
}

// kept tells whether the stores of last seen have everything. Being ready is less: it
// forgives a few seconds of lag, in which the durable store, which answers while
// Redis is filled, would not know everybody.
func kept(ctx context.Context, admin string) bool {
	var report struct {
		Groups []struct {
			Group      string `json:"group"`
			Partitions []struct {
				Lag int64 `json:"lag_records"`
			} `json:"partitions"`
		} `json:"groups"`
	}
	if err := get(ctx, admin+"/readyz?verbose", &report); err != nil {
		return false
	}
	stores := 0
	for _, g := range report.Groups {
		if !strings.Contains(g.Group, "lastseen") {
			continue
		}
		stores++
		for _, p := range g.Partitions {
			if p.Lag > 0 {
				return false
			}
		}
	}
	return stores > 0
}

// ids are the users, as in frames.
func (c crowd) ids() []schemas.UserID {
	var all []schemas.UserID
	for _, part := range c.byPartition() {
		all = append(all, part...)
	}
	return all
}

// probes is one user of each partition.
func (c crowd) probes(partitions int32) []schemas.UserID {
	var some []schemas.UserID
	for _, part := range c.byPartition() {
		if len(part) > 0 && len(some) < int(partitions) {
			some = append(some, part[0])
		}
	}
	return some
}

// anyStale asks whether one of the users is said to be stale, or not online.
func anyStale(ctx context.Context, url string, users []schemas.UserID) (bool, error) {
	for _, user := range users {
		var p schemas.Presence
		if err := get(ctx, url+"/presence/"+user.String(), &p); err != nil {
			return false, err
		}
		if p.StaleSince != 0 || p.State == nil || *p.State != "online" {
			return true, nil
		}
	}
	return false, nil
}

// asking asks for users by the batch.
type asking struct {
	url                          string
	users                        []schemas.UserID
	online, asked, wrong, failed int
}

func newAsking(like *asking) *asking { return &asking{url: like.url, users: like.users} }

// on asks round and round until ctx ends.
func (a *asking) on(ctx context.Context) {
	for at := 0; ctx.Err() == nil; at = (at + batchLength) % len(a.users) {
		a.batch(ctx, a.users[at:min(at+batchLength, len(a.users))])
	}
}

const batchLength = 500

// everybody asks for all once and tells whether all are online; it stops at the
// first who is not.
func (a *asking) everybody(ctx context.Context) bool {
	a.online = 0
	for at := 0; at < len(a.users); at += batchLength {
		some := a.users[at:min(at+batchLength, len(a.users))]
		wrong, failed := a.wrong, a.failed
		if a.batch(ctx, some); a.wrong > wrong || a.failed > failed {
			return false
		}
		a.online += len(some)
	}
	return true
}

func (a *asking) batch(ctx context.Context, some []schemas.UserID) {
	ids := make([]string, len(some))
	for i, id := range some {
		ids[i] = id.String()
	}
	var states map[string]string
	switch err := get(ctx, a.url+"/presence/batch?user_ids="+strings.Join(ids, ","), &states); {
	case ctx.Err() != nil:
	case err != nil:
		a.failed++
	default:
		for _, state := range states {
			if a.asked++; state != "online" {
				a.wrong++
			}
		}
	}
}

func get(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := doorsClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}
