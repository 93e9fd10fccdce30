package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// CheckNames returns an error that names the settings which a tenant cannot have for itself.
func CheckNames(names []string) error {
	var others []string
	for _, name := range names {
		if !slices.Contains(schemas.TenantSettings, name) {
			others = append(others, name)
		}
	}
	if others == nil {
		return nil
	}
	return fmt.Errorf("%s: only the policy of the pipeline has it, because tenants share gateways and partitions; a tenant may have its own %s",
		strings.Join(others, ", "), strings.Join(schemas.TenantSettings, ", "))
}

// ofTenant reports in how many partitions the policy of t is in force, and whether one has no place for
// a further tenant.
func ofTenant(all map[int32]*schemas.Checkpoint, t schemas.TenantPolicy) (inForce int32, full bool) {
	for _, c := range all {
		known := slices.ContainsFunc(c.Tenants, func(m schemas.TenantMark) bool { return m.Of(t.Tenant) })
		if slices.Contains(c.Tenants, t.Mark()) || !known && t.Policy == nil {
			inForce++
		}
		full = full || !known && t.Policy != nil && len(c.Tenants) >= schemas.MaxTenantPolicies
	}
	return inForce, full
}

// SetTenant brings the policy of a tenant into force: it tells gateways by a record of the topic
// pipeline, and detectors by a frame in every partition of the heartbeats. Without a policy the tenant
// goes by the pipeline's again.
func SetTenant(ctx context.Context, cluster kafka.Config, t schemas.TenantPolicy, log *slog.Logger) (err error) {
	if t.Policy != nil {
		if err := t.Policy.Validate(); err != nil {
			return err
		}
	}
	all, err := Checkpoints(ctx, cluster)
	if err != nil {
		return fmt.Errorf("looking which tenants have policies of their own: %w", err)
	}
	if _, full := ofTenant(all, t); full {
		return fmt.Errorf("%d tenants of this pipeline have or had policies of their own, which is the most; tenants whose policies were removed count, because detectors go on knowing their users", schemas.MaxTenantPolicies)
	}
	if err := CheckSigned(ctx, cluster); err != nil {
		return err
	}
	producer, err := kafka.NewProducer(cluster, log, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, producer.Close(context.WithoutCancel(ctx))) }()
	partitions, err := producer.Partitions(ctx, schemas.Heartbeats)
	if err != nil {
		return err
	}
	if err := producer.AppendSync(ctx, schemas.Outgoing{Topic: schemas.Pipeline, Key: t.Key(), Value: t.Encode()}); err != nil {
		return fmt.Errorf("telling gateways the policy of the tenant: %w", err)
	}
	frame := schemas.AppendTenantPolicy(nil, t)
	outs := make([]schemas.Outgoing, partitions)
	for i := range outs {
		outs[i] = schemas.Outgoing{Topic: schemas.Heartbeats, Partition: int32(i), Value: frame}
	}
	if err := producer.AppendSync(ctx, outs...); err != nil {
		return fmt.Errorf("changing the policy of the tenant: writing it to %d partitions (the same command may be run again): %w", partitions, err)
	}
	return nil
}

// AwaitTenant is Await for SetTenant.
func AwaitTenant(ctx context.Context, cluster kafka.Config, t schemas.TenantPolicy, partitions int32, progress func(done, all int32)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		all, err := Checkpoints(ctx, cluster)
		if err != nil {
			return err
		}
		done, _ := ofTenant(all, t)
		progress(done, partitions)
		if done >= partitions {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("the policy of the tenant is written, but in force in %d of %d partitions only; it comes into force there as soon as a detector runs: %w", done, partitions, ctx.Err())
		}
	}
}

// SetPolicy is a policy that a tenant was given.
type SetPolicy struct {
	schemas.TenantPolicy
	At schemas.Millis // by the clock of the broker
}

// OfTenants reads all policies that tenants have or had, the newest last. What cannot be read is left out.
func OfTenants(ctx context.Context, reader *kafka.Reader) ([]SetPolicy, error) {
	var all []SetPolicy
	err := reader.Read(ctx, schemas.Pipeline, 0, -1, -1, true, func(r *schemas.Record) error {
		if tenant, ok := schemas.TenantOfPolicyKey(r.Key); ok {
			if t, err := schemas.DecodeTenantPolicy(r.Value); err == nil && t.Tenant == tenant {
				all = append(all, SetPolicy{t, r.Time})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the policies of tenants: %w", err)
	}
	return all, nil
}

// TenantInForce is in how many partitions the policy of a tenant is in force.
func TenantInForce(ctx context.Context, cluster kafka.Config, t schemas.TenantPolicy) (partitions int32, err error) {
	all, err := Checkpoints(ctx, cluster)
	if err != nil {
		return 0, err
	}
	partitions, _ = ofTenant(all, t)
	return partitions, nil
}
