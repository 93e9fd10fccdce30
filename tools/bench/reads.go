package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/schemas"
)

const (
	// idsPerRead is how many users a request of the bench asks for.
	idsPerRead = 50
	// readConnections is how many clients ask at the same time, each again as soon as
	// it has its answer.
	readConnections = 32
	// differentReads is how many requests there are, asked in turns.
	differentReads = 2000
	batchPath      = "/presence/batch?user_ids="
	// warmUp goes before what is measured.
	warmUp = time.Second
)

// benchReads measures GET /presence/batch of fifty users at a time: the role that
// serves reads in a process of its own, on a redis-server where one is installed,
// asked by as many clients as are waited for at the same time. All users are online
// and every answer is looked at. Who asks shares the machine; so that this can be
// told apart, the processor time of each process for a request is in the figures.
func benchReads(ctx context.Context, o *Options, r *Result) (err error) {
	if o.Users < idsPerRead {
		return fmt.Errorf("users: must be at least %d, is %d", idsPerRead, o.Users)
	}
	if err := checkAlone(ctx, o); err != nil {
		return err
	}
	rig, err := newRig(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, rig.close()) }()
	redis, err := rig.startRedis(ctx)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, redis.stop()) }()
	at, stop, err := rig.everyoneOnline(ctx)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, stop()) }()
	nodes := rig.nodes(ctx, at, 1)
	defer func() { err = joined(err, nodes.close()) }()
	if nodes.fault != nil {
		return nodes.fault
	}
	asked := readsOf(nodes.doors[0], crowd{o.Users, o.Partitions}.ids())
	if _, err := askAll(ctx, o, nodes.doors[0], asked, warmUp); err != nil {
		return err
	}
	api, own := nodes.tools[0].command.Process.Pid, os.Getpid()
	spent := [3]time.Duration{processorTime(api), processorTime(redis.pid), processorTime(own)}
	var times spread
	begun := time.Now()
	err = o.measured(func() error {
		times, err = askAll(ctx, o, nodes.doors[0], asked, o.length())
		return err
	})
	if err != nil {
		return err
	}
	took, count := time.Since(begun), float64(len(times))
	r.add(fmt.Sprintf("batch reads of %d users", idsPerRead), count/took.Seconds(), "requests/s").atLeast(20_000)
	r.addSpread("batch read", times)
	for i, of := range []struct {
		name string
		pid  int
	}{{"API", api}, {"Redis", redis.pid}, {"who asks", own}} {
		if used := processorTime(of.pid) - spent[i]; used > 0 {
			r.add("processor time of a request, "+of.name, float64(used.Microseconds())/count, "µs").lessIsBetter()
		}
	}
	r.note(fmt.Sprintf("%s; %d clients, each with one request under way; every answer said of %d users that they are online.", redis.what, readConnections, idsPerRead))
	return nil
}

// everyoneOnline runs every role and waits until all users are online.
func (r *rig) everyoneOnline(ctx context.Context) (place, func() error, error) {
	url, admin, dir, stop, err := r.everyRoleIn(ctx, func(c *app.Config) { c.Policy = everybody() })
	if err != nil {
		return place{}, nil, err
	}
	people := crowd{r.o.Users, r.o.Partitions}
	if err := r.write(ctx, people.frames(beatsPerFrame)); err != nil {
		return place{}, nil, joined(err, stop())
	}
	asking, isReady := &asking{url: url, users: people.ids()}, ready(admin)
	count := func() string {
		return fmt.Sprintf("%d of %d users are online, and readiness", asking.online, r.o.Users)
	}
	if err := r.o.until(ctx, count, func() bool { return asking.everybody(ctx) && isReady() }); err != nil {
		return place{}, nil, joined(err, stop())
	}
	return place{doors: strings.TrimPrefix(url, "http://"), sqlite: storeOf(dir)}, stop, nil
}

// readsOf are requests for users at random, as they go over the wire.
func readsOf(host string, users []schemas.UserID) [][]byte {
	random := rand.New(rand.NewPCG(3, 4))
	all := make([][]byte, differentReads)
	for i := range all {
		b := []byte("GET " + batchPath)
		first, step := random.IntN(len(users)), max(1, len(users)/idsPerRead) // none is asked for twice
		for n := range idsPerRead {
			if n > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(users[(first+n*step)%len(users)]), 10)
		}
		all[i] = append(b, " HTTP/1.1\r\nHost: "+host+"\r\nUser-Agent: stillhere-bench\r\nAccept: application/json\r\n\r\n"...)
	}
	return all
}

// askAll asks over all connections for a while and returns how long each took.
func askAll(ctx context.Context, o *Options, host string, asked [][]byte, length time.Duration) (spread, error) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var all lockedSpread
	var next, done atomic.Int64
	faults := make([]error, readConnections)
	var clients sync.WaitGroup
	for i := range readConnections {
		clients.Go(func() {
			var times spread
			times, faults[i] = askOn(ctx, host, &done, func() []byte { return asked[int(next.Add(1))%len(asked)] })
			all.add(times)
			if faults[i] != nil {
				cancel()
			}
		})
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for waiting := true; waiting; {
		select {
		case <-ticker.C:
			o.Progress.Say("  %d requests answered", done.Load())
		case <-ctx.Done():
			waiting = false
		}
	}
	clients.Wait()
	for _, fault := range faults {
		if fault != nil { // the others will say the same
			return nil, fault
		}
	}
	return all.all(), nil
}
