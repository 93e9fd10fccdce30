package policy

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
)

// Keeper knows which policies the topic policies has, so that the detectors of a process write each new one
// once. There is one record of about 100 bytes for each different policy; none is deleted. One that two
// processes write is the same.
type Keeper struct {
	mu    sync.Mutex
	topic records         // what the topic had at the start
	asked map[string]bool // ids that somebody writes
}

// firstRead is how long NewKeeper may take. If it takes longer, policies are written that the topic has.
const firstRead = 5 * time.Second

// NewKeeper reads the topic policies.
func NewKeeper(ctx context.Context, cluster kafka.Config, log *slog.Logger) (*Keeper, error) {
	reader, err := kafka.NewReader(cluster, log)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(ctx, firstRead)
	defer cancel()
	kept, err := readKept(ctx, reader)
	if err != nil {
		log.Warn("the policies that are kept cannot be read", "error", err)
	}
	return &Keeper{topic: kept, asked: map[string]bool{}}, nil
}

// Lacks reports whether the topic has no policy with the id, so that the caller must write it before anything that
// names the policy. All others who ask for the id are answered false, until Restored.
func (k *Keeper) Lacks(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, kept := k.topic[id]; kept || k.asked[id] {
		return false
	}
	k.asked[id] = true
	return true
}

// Restored says that callers of Lacks may have been stopped before they wrote.
func (k *Keeper) Restored() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.asked)
}
