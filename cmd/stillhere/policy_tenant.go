package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/output"
	"github.com/stillhere/stillhere/tools/progress"
)

// tenantPolicy is by what the users of a tenant are judged: the policy of the pipeline, and that of the
// tenant; nil: it has none of its own.
func tenantPolicy(ctx context.Context, cluster kafka.Config, tenant string) (schemas.Policy, *schemas.Policy, error) {
	if err := schemas.CheckTenant("--tenant", tenant); err != nil {
		return schemas.Policy{}, nil, misused(err)
	}
	all, err := policy.InForce(ctx, cluster)
	if err != nil {
		return schemas.Policy{}, nil, err
	}
	pipeline, ok := policy.Newest(all)
	if !ok {
		return schemas.Policy{}, nil, errors.New("no policy is in force yet: no detector has committed anything")
	}
	known, err := tenants.Read(ctx, cluster, errorsOnly())
	if err != nil {
		return schemas.Policy{}, nil, err
	}
	return pipeline, known.Policies()[tenant], nil
}

// tenantPolicyReport is what show prints of a tenant.
type tenantPolicyReport struct {
	Tenant   string            `json:"tenant"`
	Own      bool              `json:"own"`
	ID       string            `json:"id"`
	Settings []schemas.Setting `json:"settings"`
}

func (c *policyShow) showTenant(ctx context.Context, cluster kafka.Config, tenant string) error {
	pipeline, own, err := tenantPolicy(ctx, cluster, tenant)
	if err != nil {
		return err
	}
	p := pipeline.For(own)
	r := tenantPolicyReport{Tenant: tenant, Own: own != nil, ID: p.ID(), Settings: p.Settings()}
	if c.Output != output.TableFormat {
		return c.print(r, r.Settings)
	}
	if r.Own {
		fmt.Printf("policy %s of tenant %q\n", r.ID, tenant)
	} else {
		fmt.Printf("tenant %q has no policy of its own: that of the pipeline, %s, counts\n", tenant, r.ID)
	}
	return printPolicy(p)
}

// setTenant changes what is asked for in the policy of a tenant.
func (c *policySet) setTenant(ctx context.Context, cluster kafka.Config, tenant string, asked policy.Change) error {
	if err := policy.CheckNames(asked.Names); err != nil {
		return misused(err)
	}
	pipeline, own, err := tenantPolicy(ctx, cluster, tenant)
	if err != nil {
		return err
	}
	before := pipeline.For(own)
	p := asked.To(before)
	for _, d := range policy.Differences(before, p) {
		fmt.Printf("%s: %s → %s\n", d.Name, d.InForce, d.Asked)
	}
	return changeTenant(ctx, os.Stdout, cluster, schemas.TenantPolicy{Tenant: tenant, Policy: &p}, c.Timeout)
}

// changeTenant brings t into force, waits for the detectors, and then says so on out.
func changeTenant(ctx context.Context, out io.Writer, cluster kafka.Config, t schemas.TenantPolicy, wait time.Duration) error {
	partitions, err := admin.CheckTopics(ctx, cluster)
	if err != nil {
		return err
	}
	if err := policy.SetTenant(ctx, cluster, t, errorsOnly()); err != nil {
		return err
	}
	line := progress.Stderr()
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err = policy.Await(bounded, cluster, func(done, all int) { line.Say("in force in %d of %d partitions", done, all) })
	line.Clear()
	if err != nil {
		return err
	}
	if t.Policy == nil {
		fmt.Fprintf(out, "tenant %q goes by the policy of the pipeline in all %d partitions\n", t.Tenant, partitions)
	} else {
		fmt.Fprintf(out, "the policy of tenant %q is in force in all %d partitions\n", t.Tenant, partitions)
	}
	return nil
}
