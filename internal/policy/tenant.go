package policy

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

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

// SetTenant brings the policy of a tenant into force: it tells gateways by a record of the topic
// pipeline, and detectors by a frame in every partition of the heartbeats. Without a policy the tenant
// goes by the pipeline's again.
func SetTenant(ctx context.Context, cluster kafka.Config, t schemas.TenantPolicy, log *slog.Logger) error {
	if t.Policy != nil {
		if err := t.Policy.Validate(); err != nil {
			return err
		}
	}
	if err := CheckSigned(ctx, cluster); err != nil {
		return err
	}
	if t.Policy != nil {
		if err := checkFits(ctx, cluster, t.Tenant); err != nil {
			return err
		}
	}
	return write(ctx, cluster, schemas.AppendTenantPolicy(nil, t), log, schemas.Outgoing{Topic: schemas.Pipeline, Key: t.Key(), Value: t.Encode()})
}

// checkFits returns an error if detectors have no place for the policy of one more tenant.
func checkFits(ctx context.Context, cluster kafka.Config, tenant string) error {
	reader, err := kafka.NewReader(cluster, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer reader.Close()
	all, err := OfTenants(ctx, reader)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, t := range all {
		known[t.Tenant] = true
	}
	if !known[tenant] && len(known) >= schemas.MaxTenantPolicies {
		return fmt.Errorf("%d tenants of this pipeline have or had policies of their own, which is the most; tenants whose policies were removed count, because detectors go on knowing them", schemas.MaxTenantPolicies)
	}
	return nil
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
