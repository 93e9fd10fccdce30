package cursor

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"
)

// Keep stores own as the deployment's key unless there is one, and returns the one that is there.
type Keep func(ctx context.Context, own []byte) ([]byte, error)

// keyLifetime is how long a node uses the key without looking whether it is still the deployment's.
const keyLifetime = time.Minute

// Keys has the key of the deployment. Any goroutine may use it.
//
// The key is where all nodes can reach it, and it may be lost there (Redis was emptied). The first
// node that looks then stores the key it used before, so that cursors stay good. A key that no node
// remembers makes old cursors those of another deployment: their readers get a resync.
type Keys struct {
	keep Keep

	mu   sync.Mutex // never held while anything blocks
	key  *Key
	when time.Time
}

func NewKeys(keep Keep) *Keys { return &Keys{keep: keep} }

// Key returns the key. It gives up when ctx ends, unless it has used the deployment's key before.
func (k *Keys) Key(ctx context.Context) (*Key, error) {
	k.mu.Lock()
	key, fresh := k.key, time.Since(k.when) < keyLifetime
	k.mu.Unlock()
	if key != nil && fresh {
		return key, nil
	}
	own := new(Key)
	if key != nil {
		*own = *key
	} else {
		_, _ = rand.Read(own[:]) // it never fails
	}
	stored, err := k.keep(ctx, own[:])
	if err == nil && len(stored) != len(own) {
		err = fmt.Errorf("it has %d bytes", len(stored))
	}
	if err != nil && key == nil {
		return nil, fmt.Errorf("reading the key of cursors: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.when = time.Now(); err == nil {
		k.key = (*Key)(stored)
	}
	return k.key, nil
}
