package policy

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// keeper writes policies to the topic policies.
type keeper struct {
	cluster  kafka.Config
	producer *kafka.Producer
	log      *slog.Logger

	kept    records // that the topic has, of those that checkpoints and tenants tell of
	tenants []SetPolicy
	read    int64 // the end of the topic pipeline at which tenants were read
}

// Keep writes each policy that is in force and that the topic policies does not have to it, until ctx ends, so
// that the ids in transitions say for ever what the settings were. It looks as often as Watch, into the
// checkpoints, which hold the newest four policies of the log that restarts read again. So a policy is missed that was
// in force for less than half a minute, or that a detector passed while it caught up. Several processes may do it: a policy that is
// written twice is the same. There is one record of about 100 bytes for each different policy; none is deleted.
func Keep(ctx context.Context, cluster kafka.Config, producer *kafka.Producer, log *slog.Logger) {
	k := &keeper{cluster: cluster, producer: producer, log: log}
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
			log.Warn("the settings of policies cannot be kept, so ids of past policies will say nothing", "error", err)
		case err == nil && failing:
			log.Info("the settings of policies are kept again")
		}
		failing = err != nil
	}
}

// look writes what is missing.
func (k *keeper) look(ctx context.Context) error {
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
func (k *keeper) keep(ctx context.Context, reader *kafka.Reader, all records) (err error) {
	if k.kept, err = readKept(ctx, reader); err != nil {
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

func (k *keeper) has(all records) bool {
	for id := range all {
		if _, kept := k.kept[id]; !kept {
			return false
		}
	}
	return true
}

// readTenants reads the policies of tenants if the topic pipeline has grown.
func (k *keeper) readTenants(ctx context.Context, reader *kafka.Reader) error {
	_, end, err := reader.Bounds(ctx, schemas.Pipeline, 0)
	if err != nil || end == k.read {
		return err
	}
	if k.tenants, err = OfTenants(ctx, reader); err == nil {
		k.read = end
	}
	return err
}
