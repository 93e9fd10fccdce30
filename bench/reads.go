package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

const (
	// idsPerRead is how many users a request of the bench asks for.
	idsPerRead = 50
	// readers is how many clients ask at the same time, each again as soon as it has its answer.
	readers = 32
	// differentReads is how many requests there are, asked in turns.
	differentReads = 2000
	// warmUp goes before what is measured.
	warmUp = time.Second
)

// reads measures GET /presence/batch of fifty users at a time: the role that serves reads in a
// process of its own, on a redis-server where one is installed, asked by as many clients as are
// waited for at the same time. All users are online and every answer is looked at. The clients
// share the machine; to tell their costs apart, the processor time of each process for a
// request is in the figures, and what the API could serve if it had the two cores to itself.
func reads(t *loadtest.T) {
	if t.Users < idsPerRead {
		t.Fatalf("users: must be at least %d, is %d", idsPerRead, t.Users)
	}
	rig := t.Rig()
	redis := startRedis(t, rig)
	roles, users := everyoneOnline(t, rig)
	nodes := startServers(t, "node", 1, siteOf(rig, roles))
	api, paths := loadtest.API("http://"+nodes.addresses[0]), pathsOf(users)
	_ = ask(t, api, paths, warmUp)
	processes := []struct {
		name  string
		pid   int
		spent time.Duration
	}{{"API", nodes.processes[0].PID, 0}, {"Redis", redis.pid, 0}, {"clients", os.Getpid(), 0}}
	for i := range processes {
		processes[i].spent = processorTime(processes[i].pid)
	}
	var times loadtest.Spread
	took := t.Measured(func() { times = ask(t, api, paths, t.Length()) })
	count := float64(len(times))
	t.Add(fmt.Sprintf("batch reads of %d users", idsPerRead), count/took.Seconds(), "requests/s")
	t.AddSpread("batch read", times)
	for i, p := range processes {
		used := processorTime(p.pid) - p.spent
		if used <= 0 {
			continue
		}
		each := float64(used.Microseconds()) / count
		figure := t.Add("processor time of a request, "+p.name, each, "µs").LessIsBetter()
		if i == 0 {
			figure.AtMost(30)
			t.Add("the same as requests of the API alone on two cores", 2e6/each, "requests/s").AtLeast(20_000)
		}
	}
	t.Note(fmt.Sprintf("%s; %d clients, each with one request under way; in every answer %d users were online.", redis.what, readers, idsPerRead))
}

// pathsOf are requests for users at random.
func pathsOf(users []schemas.UserID) []string {
	random := rand.New(rand.NewPCG(3, 4))
	all := make([]string, differentReads)
	for i := range all {
		some := make([]schemas.UserID, idsPerRead)
		first, step := random.IntN(len(users)), max(1, len(users)/idsPerRead) // none is asked for twice
		for n := range some {
			some[n] = users[(first+n*step)%len(users)]
		}
		all[i] = batchPath(some)
	}
	return all
}

var saysOnline = []byte(`:"online"`)

// ask sends requests by all clients for a while and returns how long each took.
func ask(t *loadtest.T, api loadtest.API, paths []string, length time.Duration) loadtest.Spread {
	var all loadtest.LockedSpread
	var next atomic.Int64
	clients, ctx := errgroup.WithContext(t.Context())
	begun := time.Now()
	for range readers {
		clients.Go(func() error {
			var times loadtest.Spread
			defer func() { all.Add(times) }()
			for time.Since(begun) < length {
				asked := time.Now()
				answer, err := api.Ask(ctx, http.MethodGet, paths[int(next.Add(1))%len(paths)], "", http.StatusOK)
				if err != nil {
					return err
				}
				times = append(times, time.Since(asked))
				if online := bytes.Count(answer, saysOnline); online != idsPerRead {
					return fmt.Errorf("of %d users only %d are online: %s", idsPerRead, online, answer)
				}
			}
			return nil
		})
	}
	t.Progress.Say("  asking for %s", length)
	t.Check(clients.Wait())
	return all.All()
}

// batchPath asks for the states of users.
func batchPath(users []schemas.UserID) string {
	b := []byte("/presence/batch?user_ids=")
	for i, user := range users {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(user), 10)
	}
	return string(b)
}
