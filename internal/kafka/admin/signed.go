package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// Of a log the last frames of so many partitions, so many of each, show by which masters it is signed. Some may be
// forged; detectors sign four ticks a second.
const lookedAt, lastFrames = 4, 100

// CheckSigned fails if detectors would refuse what a command writes to the heartbeats: their last frames are
// signed, and none by a master that the command has.
func CheckSigned(ctx context.Context, cluster kafka.Config) error {
	signers, err := Signers(ctx, cluster)
	if err != nil || len(signers) == 0 {
		return err
	}
	if cluster.Keys == nil {
		return errors.New("--frame-keys: is needed: the heartbeats of this pipeline are signed, and its detectors refuse what is not")
	}
	for _, signer := range signers {
		if strings.Contains(cluster.Keys.Fingerprints(), signer) {
			return nil
		}
	}
	return fmt.Errorf("--frame-keys: has the masters %s, and the heartbeats of this pipeline are signed by %s: its detectors would refuse what this command writes",
		cluster.Keys.Fingerprints(), strings.Join(signers, " "))
}

// Signers are the fingerprints of the masters by which the last heartbeats are signed; none: they are not.
func Signers(ctx context.Context, cluster kafka.Config) (fingerprints []string, err error) {
	reader, err := kafka.NewReader(cluster, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	partitions, err := reader.Partitions(ctx, schemas.Heartbeats)
	if err != nil {
		return nil, err
	}
	var frame schemas.Frame
	known := map[string]bool{}
	for partition := range min(partitions, lookedAt) {
		err := reader.Read(ctx, schemas.Heartbeats, partition, stream.Last(lastFrames), -1, false, func(r *schemas.Record) error {
			if frame.Decode(r.Value) != nil {
				return nil
			}
			if fingerprint := signing.FingerprintOf(frame.KeyID); fingerprint != "" && !known[fingerprint] {
				known[fingerprint] = true
				fingerprints = append(fingerprints, fingerprint)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("looking by whom the heartbeats are signed: %w", err)
		}
	}
	return fingerprints, nil
}
