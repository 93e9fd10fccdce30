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
	// sentinels are keys whose presence shows that their node has not lost its keys. With 256 of
	// them, a node with a twentieth of the slots has none with a probability of one in half a
	// million.
	sentinels  = 256
	checkEvery = time.Second
	// checkTimeout bounds one check, which a hanging node would block.
	checkTimeout = time.Second
)

// nodeCheck is what is known of the sentinels.
type nodeCheck struct {
	mu    sync.Mutex // held by who looks, for checkTimeout at most
	at    atomic.Int64
	epoch atomic.Int64
}

// IntactSince returns, in a cluster, the epoch since which no node has lost its keys, checked at
// most a second ago. Users that were rebuilt under an earlier epoch may be missing. Outside a
// cluster it is 0: there the progress is lost together with all other keys.
func (v *View) IntactSince(ctx context.Context) int64 {
	f := &v.nodeCheck
	if !v.cluster || time.Now().UnixNano()-f.at.Load() < int64(checkEvery) || !f.mu.TryLock() {
		return f.epoch.Load()
	}
	defer f.mu.Unlock()
	// A node that is away is not empty.
	_, _ = v.checkSentinels(ctx)
	return f.epoch.Load()
}

// CheckNodes is IntactSince as of now, or an error. A rebuild calls it first and uses a later
// epoch.
func (v *View) CheckNodes(ctx context.Context) (int64, error) {
	if !v.cluster {
		return 0, nil
	}
	v.nodeCheck.mu.Lock()
	defer v.nodeCheck.mu.Unlock()
	return v.checkSentinels(ctx)
}

// checkSentinels writes missing sentinels, with an epoch later than those of all partitions. Holds
// nodeCheck.mu.
func (v *View) checkSentinels(ctx context.Context) (int64, error) {
	v.nodeCheck.at.Store(time.Now().UnixNano())
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	newest, missing, bad := int64(0), []int(nil), error(nil)
	err := v.getEach(ctx, sentinels, v.sentinelKey, func(i int, value string) {
		if value == "" {
			missing = append(missing, i)
			return
		}
		epoch, err := strconv.ParseInt(value, 10, 64)
		newest, bad = max(newest, epoch), errors.Join(bad, err)
	})
	if err = errors.Join(err, bad); err != nil {
		return 0, fmt.Errorf("looking whether a node of the Redis Cluster was emptied: %w", err)
	}
	if len(missing) > 0 {
		if newest, err = v.restoreSentinels(ctx, missing, newest); err != nil {
			return 0, err
		}
	}
	v.nodeCheck.epoch.Store(newest)
	return newest, nil
}

func (v *View) restoreSentinels(ctx context.Context, missing []int, newest int64) (int64, error) {
	read, err := v.freshProgress(ctx)
	if err != nil {
		return 0, err
	}
	epoch := max(time.Now().UnixMilli(), newest+1)
	for _, progress := range read.progress {
		epoch = max(epoch, progress.Epoch+1)
	}
	_, err = v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, i := range missing {
			p.Set(ctx, v.sentinelKey(i), epoch, 0)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("putting sentinels on the nodes of the Redis Cluster: %w", err)
	}
	return epoch, nil
}

// sentinelKey is a key of its own slot.
func (v *View) sentinelKey(i int) string { return v.prefix + "witness:{" + strconv.Itoa(i) + "}" }
