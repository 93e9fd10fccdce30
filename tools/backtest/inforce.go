package backtest

import (
	"context"
	"fmt"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
)

// InForce is what heartbeats do not say about their pipeline.
type InForce struct {
	// Identity is how users are named; Known: whether that is known, as it is not of older recordings.
	Identity schemas.PipelineIdentity
	Known    bool
	// Policy is that of the pipeline before the first heartbeat; nil: it is not known.
	Policy *schemas.Policy
	// Tenants are the policies of tenants before the first heartbeat, at most one of a tenant.
	Tenants []schemas.TenantPolicy
}

// named reports whether users have names.
func (in InForce) named() bool { return in.Identity.IDs != "" }

// policyOf is the policy of a tenant; nil: it has none of its own.
func (in InForce) policyOf(tenant string) *schemas.Policy {
	for _, t := range in.Tenants {
		if t.Tenant == tenant {
			return t.Policy
		}
	}
	return nil
}

// inForce looks up what was in force at the first record of the topic since an instant (0: of all).
func inForce(ctx context.Context, cluster kafka.Config, reader *kafka.Reader, partitions int32, since schemas.Millis,
	checkpoints map[int32]*schemas.Checkpoint,
) (InForce, error) {
	in := InForce{Identity: cluster.Users.Pipeline(), Known: true}
	if since == 0 {
		var err error
		if since, err = oldest(ctx, reader, partitions); err != nil {
			return in, err
		}
	}
	for p := range partitions {
		if c := checkpoints[p]; c != nil && c.Policy != (schemas.PolicyInForce{}) && c.Policy.At <= since {
			in.Policy = &c.Policy.Policy
			break
		}
	}
	if in.Policy == nil {
		if err := in.onlyKnown(ctx, reader, since); err != nil {
			return in, err
		}
	}
	if !cluster.Users.Text() {
		return in, nil
	}
	set, err := policy.OfTenants(ctx, reader)
	if err != nil {
		return in, err
	}
	at := map[string]int{}
	for _, t := range set {
		if since != 0 && t.At > since {
			break // the heartbeats say it
		}
		i, known := at[t.Tenant]
		if !known {
			i = len(in.Tenants)
			at[t.Tenant] = i
			in.Tenants = append(in.Tenants, t.TenantPolicy)
		}
		in.Tenants[i] = t.TenantPolicy
	}
	return in, nil
}

// onlyKnown sets the policy to the only one that was in force by an instant, if there is only one: which of several
// was the last, nothing says once another one is in force.
func (in *InForce) onlyKnown(ctx context.Context, reader *kafka.Reader, since schemas.Millis) error {
	known, err := policy.ReadKnown(ctx, reader, nil, nil)
	if err != nil {
		return err
	}
	var before []schemas.Policy
	for _, p := range known.All {
		if p.Since <= since {
			before = append(before, p.Policy)
		}
	}
	if len(before) == 1 {
		in.Policy = &before[0]
	}
	return nil
}

// oldest is when the oldest record of the heartbeats was written; 0: there is none.
func oldest(ctx context.Context, reader *kafka.Reader, partitions int32) (at schemas.Millis, err error) {
	for p := range partitions {
		start, end, err := reader.Bounds(ctx, schemas.Heartbeats, p)
		if err != nil || start >= end {
			return at, err
		}
		err = reader.Read(ctx, schemas.Heartbeats, p, start, start+1, false, func(r *schemas.Record) error {
			if at == 0 || r.Time < at {
				at = r.Time
			}
			return nil
		})
		if err != nil {
			return at, err
		}
	}
	return at, nil
}

// recorded is InForce in the head of a recording.
type recorded struct {
	IDs         *string  `json:"ids,omitempty"` // "" of int mode; nil in older recordings
	Fingerprint string   `json:"identity_key_fingerprint,omitempty"`
	Policy      []byte   `json:"policy,omitempty"`  // as that of the default tenant
	Tenants     [][]byte `json:"tenants,omitempty"` // schemas.TenantPolicy
}

func (in InForce) recorded() recorded {
	r := recorded{Fingerprint: in.Identity.Fingerprint}
	if in.Known {
		r.IDs = &in.Identity.IDs
	}
	if in.Policy != nil {
		r.Policy = schemas.TenantPolicy{Policy: in.Policy}.Encode()
	}
	for _, t := range in.Tenants {
		r.Tenants = append(r.Tenants, t.Encode())
	}
	return r
}

func (r recorded) inForce() (in InForce, err error) {
	if in.Known = r.IDs != nil; in.Known {
		in.Identity = schemas.PipelineIdentity{IDs: *r.IDs, Fingerprint: r.Fingerprint}
	}
	if r.Policy != nil {
		t, err := schemas.DecodeTenantPolicy(r.Policy)
		if err != nil {
			return in, fmt.Errorf("the policy of the recording: %w", err)
		}
		in.Policy = t.Policy
	}
	for _, value := range r.Tenants {
		t, err := schemas.DecodeTenantPolicy(value)
		if err != nil {
			return in, fmt.Errorf("the policies of tenants of the recording: %w", err)
		}
		in.Tenants = append(in.Tenants, t)
	}
	return in, nil
}
