package app

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/stillhere/stillhere/detector"
	"github.com/stillhere/stillhere/internal/crashpoint"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
)

var _ interface {
	processor.PositionedTask
	processor.TickedTask
	processor.StoppingTask
	processor.ClosedTask
} = (*detector.Partition)(nil)

// newDetector decides who is online, away or offline and publishes every change.
func newDetector(ctx context.Context, p base) (component, error) {
	if err := verifyPartitioning(ctx, p); err != nil {
		return component{}, err
	}
	if err := admin.CheckRetention(ctx, p.cluster); err != nil {
		p.log.Warn("a restart may lack heartbeats that it needs: present users would then count as heard at the last commit", "error", err)
	}
	topic := schemas.Heartbeats.Name(p.cluster.WithDefaults().Prefix)
	keeper, err := policy.NewKeeper(ctx, p.cluster, p.log)
	if err != nil {
		return component{}, err
	}
	gateways, c, err := followGateways(ctx, p)
	if err != nil {
		return c, err
	}
	config := detector.Config{Settings: p.config.Policy, Log: p.log, Metrics: detector.NewMetrics(p.registry), Now: time.Now, Key: randomKey(),
		SeenInterval: p.config.SeenInterval, MinLogEpoch: p.config.MinLogEpoch, Users: p.cluster.Users, Policies: keeper,
		Keys: p.cluster.Keys, Topic: topic, Gateways: gateways}
	written := []schemas.Topic{schemas.Transitions, schemas.Statuses, schemas.Snapshots}
	if p.cluster.Users.Text() {
		written = append(written, schemas.Names)
	}
	if n := crashpoint.Bound("STILLHERE_SNAPSHOT_MILLIS"); n > 0 {
		often := time.Duration(n) * time.Millisecond
		config.Snapshots = detector.Cadence{Least: often, Most: often, Step: 8}
	}
	cluster := p.cluster
	if n := crashpoint.Bound("STILLHERE_TRANSACTION_RECORDS"); n > 0 {
		cluster.MaxTransactionRecords = n
	}
	proc := processor.New(cluster, detectorGroup, schemas.Heartbeats,
		func(partition int32) processor.Task { return detector.NewPartition(config, partition) }, p.producer, p.log, p.kafkaMetrics).
		Writes(written...)
	return c.with(loop("detector", proc.Run, proc.Ready)), nil
}

// randomKey returns a number that nobody can guess.
func randomKey() uint64 {
	var key [8]byte
	_, _ = rand.Read(key[:]) // never fails
	return binary.LittleEndian.Uint64(key[:])
}
