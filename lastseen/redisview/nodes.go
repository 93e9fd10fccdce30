package redisview

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// witnesses are keys that tell, by being there, that the node on which they lie has
	// not lost its keys. So many that a node with a twentieth of the slots has none with
	// a probability of one in half a million.
	witnesses = 256
	// lookEvery is how often their absence is looked for.
	lookEvery = time.Second
	// lookTimeout bounds one look, which a node that hangs would hold up.
	lookTimeout = time.Second
)

// founded is what is known of the witnesses.
type founded struct {
	mu    sync.Mutex // held by who looks, for lookTimeout at most
	at    atomic.Int64
	epoch atomic.Int64
}

// Founded is, in a cluster, the epoch since which no node has lost its keys, as far as
// was seen in the last second: what was rebuilt under an earlier one may not be
// there any more. Outside a cluster it is 0: there the marks are lost with all others.
func (v *View) Founded(ctx context.Context) int64 {
	f := &v.founded
	if !v.cluster || time.Now().UnixNano()-f.at.Load() < int64(lookEvery) || !f.mu.TryLock() {
		return f.epoch.Load()
	}
	defer f.mu.Unlock()
	// A node that is away is not empty.
	_, _ = v.look(ctx)
	return f.epoch.Load()
}

// Found is Founded as of now, or an error. A rebuild asks before it begins, and
// begins under a later epoch.
func (v *View) Found(ctx context.Context) (int64, error) {
	if !v.cluster {
		return 0, nil
	}
	v.founded.mu.Lock()
	defer v.founded.mu.Unlock()
	return v.look(ctx)
}

// look puts a witness where one is missing, with an epoch later than those of all
// marks. Holds founded.mu.
func (v *View) look(ctx context.Context) (int64, error) {
	v.founded.at.Store(time.Now().UnixNano())
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var seen [witnesses]*redis.StringCmd
	_, err := v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range seen {
			seen[i] = p.Get(ctx, v.witnessKey(i))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("looking whether a node of the Redis Cluster was emptied: %w", err)
	}
	newest, missing := int64(0), []int(nil)
	for i, one := range seen {
		epoch, err := one.Int64()
		switch {
		case errors.Is(err, redis.Nil):
			missing = append(missing, i)
		case err != nil:
			return 0, fmt.Errorf("reading the witness %d of the Redis Cluster: %w", i, err)
		}
		newest = max(newest, epoch)
	}
	if len(missing) > 0 {
		if newest, err = v.replace(ctx, missing, newest); err != nil {
			return 0, err
		}
	}
	v.founded.epoch.Store(newest)
	return newest, nil
}

func (v *View) replace(ctx context.Context, missing []int, newest int64) (int64, error) {
	read, err := v.marksFromNow(ctx)
	if err != nil {
		return 0, err
	}
	epoch := max(time.Now().UnixMilli(), newest+1)
	for _, mark := range read.marks {
		epoch = max(epoch, mark.Epoch+1)
	}
	_, err = v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, i := range missing {
			p.Set(ctx, v.witnessKey(i), epoch, 0)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("putting witnesses on the nodes of the Redis Cluster: %w", err)
	}
	return epoch, nil
}

// witnessKey is a key of its own slot.
func (v *View) witnessKey(i int) string { return v.prefix + "witness:{" + strconv.Itoa(i) + "}" }
