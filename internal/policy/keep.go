package policy

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// Keeper writes policies to the topic policies, so that the ids in transitions say for ever what the settings
// were. There is one record of about 100 bytes for each different policy; none is deleted. Several processes may
// keep policies: one that is written twice is the same.
type Keeper struct {
	cluster  kafka.Config
	producer *kafka.Producer
	log      *slog.Logger

	mu     sync.Mutex
	topic  map[string]bool // ids of which the topic was read
	asked  map[string]bool // ids that somebody writes
	usable bool            // the topic exists, as far as is known

	// Of Run alone.
	kept    records // that the topic has, of those that checkpoints and tenants tell of
	tenants []SetPolicy
	read    int64 // the end of the topic pipeline at which tenants were read
}

// firstRead is how long NewKeeper may take. If it takes longer, policies are written that the topic has.
const firstRead = 5 * time.Second

// NewKeeper reads the topic policies. If it cannot, Run reports why.
func NewKeeper(ctx context.Context, cluster kafka.Config, producer *kafka.Producer, log *slog.Logger) (*Keeper, error) {
	k := &Keeper{cluster: cluster, producer: producer, log: log, asked: map[string]bool{}, usable: true}
	reader, err := kafka.NewReader(cluster, log)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(ctx, firstRead)
	defer cancel()
	_, _ = k.readTopic(ctx, reader) // Run reads it again
	return k, nil
}

// readTopic is readKept, for Lacks as well.
func (k *Keeper) readTopic(ctx context.Context, reader *kafka.Reader) (records, error) {
	kept, err := readKept(ctx, reader)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		k.usable, k.topic = true, map[string]bool{}
		for id := range kept {
			k.topic[id] = true
		}
	case kafka.IsMissingTopic(err) || kafka.IsUnauthorized(err):
		k.usable = false
	}
	return kept, err
}

// Lacks reports whether the topic has no policy with the id, so that the caller must write it before anything that
// names the policy. All others who ask for the id are answered false, until Restored. It is false if the topic is missing.
func (k *Keeper) Lacks(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.usable || k.topic[id] || k.asked[id] {
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

// Run writes each policy that is in force and that the topic policies does not have to it, until ctx ends. It looks
// as often as Watch, into the checkpoints, which hold the newest four policies of the log that restarts read again.
// These are the policies of before the topic existed, and of programs that did not keep them; the detectors
// write all others when they come into force.
func (k *Keeper) Run(ctx context.Context) {
	for failing := false; ; {
		wait := firstInterval
		if len(k.kept) > 0 || failing {
			wait = nextLook(time.Now())
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		bounded, cancel := context.WithTimeout(ctx, WatchInterval)
		err := k.look(bounded)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			k.log.Warn("the settings of policies cannot be kept, so ids of past policies will say nothing", "error", err)
		case err == nil && failing:
			k.log.Info("the settings of policies are kept again")
		}
		failing = err != nil
	}
}

// look writes what is missing.
func (k *Keeper) look(ctx context.Context) error {
	checkpoints, err := Checkpoints(ctx, k.cluster)
	if err != nil {
		return err
	}
	text := k.cluster.Users.Text()
	if len(checkpoints) == 0 || !text && k.has(everInForce(checkpoints, nil)) {
		return nil
	}
	reader, err := kafka.NewReader(k.cluster, k.log)
	if err != nil {
		return err
	}
	defer reader.Close()
	if text {
		if err := k.readTenants(ctx, reader); err != nil {
			return err
		}
	}
	all := everInForce(checkpoints, k.tenants)
	if k.has(all) {
		k.kept = all
		return nil
	}
	return k.keep(ctx, reader, all)
}

// keep writes the policies that the topic does not have.
func (k *Keeper) keep(ctx context.Context, reader *kafka.Reader, all records) (err error) {
	if k.kept, err = k.readTopic(ctx, reader); err != nil {
		return err
	}
	var outs []schemas.Outgoing
	for id, p := range all {
		if _, kept := k.kept[id]; !kept {
			outs = append(outs, schemas.Outgoing{Topic: schemas.Policies, Key: p.Key(), Value: p.Encode()})
		}
	}
	if err = k.producer.AppendSync(ctx, outs...); err != nil {
		return fmt.Errorf("keeping %d policies: %w", len(outs), err)
	}
	k.kept = all
	return nil
}

func (k *Keeper) has(all records) bool {
	for id := range all {
		if _, kept := k.kept[id]; !kept {
			return false
		}
	}
	return true
}

// readTenants reads the policies of tenants if the topic pipeline has grown.
func (k *Keeper) readTenants(ctx context.Context, reader *kafka.Reader) error {
	_, end, err := reader.Bounds(ctx, schemas.Pipeline, 0)
	if err != nil || end == k.read {
		return err
	}
	if k.tenants, err = OfTenants(ctx, reader); err == nil {
		k.read = end
	}
	return err
}
