package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/output"
)

// knownPolicy is a policy that is in force or was.
type knownPolicy struct {
	ID    string         `json:"id"`
	Since schemas.Millis `json:"since,omitzero"` // log time; 0: the beginning of the pipeline
	// LastSince is when it came into force last, if that is known and another instant.
	LastSince schemas.Millis `json:"last_since,omitzero"`
	// Unverified: the topic of policies alone says since.
	Unverified bool `json:"since_unverified,omitempty"`
	// InForce is for whom it is in force: "pipeline", "tenant acme", "the default tenant".
	InForce  []string          `json:"in_force"`
	Settings []schemas.Setting `json:"settings"`

	policy schemas.Policy
}

// knownPolicies reads the policies that are known, and for whom they are in force.
func knownPolicies(ctx context.Context, f kafkaFlags, cluster kafka.Config) (policy.Known, []knownPolicy, error) {
	reader, err := f.openReader()
	if err != nil {
		return policy.Known{}, nil, err
	}
	defer reader.Close()
	stored, err := admin.Identity(ctx, cluster)
	if err != nil {
		return policy.Known{}, nil, err
	}
	named := stored.IDs != ""
	known, err := policy.Load(ctx, cluster, reader, named)
	if err != nil {
		return known, nil, err
	}
	inForce, err := policiesInForce(ctx, cluster, reader, named)
	if err != nil {
		return known, nil, err
	}
	all := make([]knownPolicy, len(known.All))
	for i, p := range known.All {
		id := p.Policy.ID()
		all[i] = knownPolicy{ID: id, Since: p.Since, Unverified: p.Unverified, InForce: append([]string{}, inForce[id]...),
			Settings: p.Policy.Settings(), policy: p.Policy}
		if p.LastSince > p.Since {
			all[i].LastSince = p.LastSince
		}
	}
	return known, all, nil
}

// policiesInForce says for whom policies are in force, by their ids.
func policiesInForce(ctx context.Context, cluster kafka.Config, reader *kafka.Reader, named bool) (map[string][]string, error) {
	partitions, err := policy.InForce(ctx, cluster)
	if err != nil {
		return nil, err
	}
	pipeline, ok := policy.Newest(partitions)
	if !ok {
		return nil, nil
	}
	all := map[string][]string{}
	for _, p := range partitions { // more than one while a change is under way
		if id := p.Policy.ID(); all[id] == nil {
			all[id] = []string{"pipeline"}
		}
	}
	if !named {
		return all, nil
	}
	set, err := policy.OfTenants(ctx, reader)
	if err != nil {
		return nil, err
	}
	own := map[string]*schemas.Policy{}
	for _, t := range set {
		own[t.Tenant] = t.Policy
	}
	for tenant, p := range own {
		if p == nil {
			continue
		}
		whose := "tenant " + tenant
		if tenant == "" {
			whose = "the default tenant"
		}
		id := pipeline.For(p).ID()
		all[id] = append(all[id], whose)
	}
	for _, whose := range all {
		slices.Sort(whose)
	}
	return all, nil
}

// since is when the policy came into force first, for people.
func (p knownPolicy) since() string {
	if p.Since == 0 {
		return "the beginning"
	}
	return p.Since.String()
}

// showID prints the policy with an id.
func (c *policyShow) showID(ctx context.Context, cluster kafka.Config) error {
	known, all, err := knownPolicies(ctx, c.kafkaFlags, cluster)
	if err != nil {
		return err
	}
	found, err := findPolicy(known, "<id>", c.ID)
	if err != nil {
		return err
	}
	p := all[slices.IndexFunc(all, func(p knownPolicy) bool { return p.ID == found.Policy.ID() })]
	if c.Output != output.TableFormat {
		return c.print(p, p.Settings)
	}
	fmt.Printf("policy %s\n", p.ID)
	if err := printPolicy(p.policy); err != nil {
		return err
	}
	first := p.since()
	if p.Unverified {
		first += ", as the topic of policies says"
	}
	if p.LastSince != 0 {
		first += "; last since " + p.LastSince.String()
	}
	fmt.Printf("in force first since %s; now for: %s\n", first, orNobody(p.InForce))
	return nil
}

// findPolicy is the policy with an id that was given under a name.
func findPolicy(known policy.Known, name, id string) (policy.KnownPolicy, error) {
	found, err := known.Find(id)
	var bad *schemas.FieldError
	if errors.As(err, &bad) {
		return found, misused(schemas.Invalid(name, bad.Reason))
	}
	return found, err
}

func orNobody(words []string) string {
	if len(words) == 0 {
		return "nobody"
	}
	return strings.Join(words, ", ")
}

// policyColumns are those of policies.
var policyColumns = []output.Column[knownPolicy]{
	{Name: "id", Head: "POLICY", Value: func(p knownPolicy) any { return p.ID }},
	{Name: "since", Value: func(p knownPolicy) any { return p.Since }},
	{Head: "FIRST IN FORCE (UTC)", Value: func(p knownPolicy) any {
		if p.Since == 0 {
			return p.since()
		}
		return output.Instant(p.Since)
	}},
	{Name: "last_since", Value: func(p knownPolicy) any { return p.LastSince }},
	{Head: "LAST (UTC)", Value: func(p knownPolicy) any {
		if p.LastSince == 0 {
			return ""
		}
		return output.Instant(p.LastSince)
	}},
	{Name: "in_force", Head: "NOW FOR", Value: func(p knownPolicy) any { return p.InForce }},
	{Name: "differs", Head: "DIFFERS FROM THE DEFAULT IN", Value: func(p knownPolicy) any {
		var all []string
		for _, d := range policy.Differences(p.policy, schemas.DefaultPolicy()) {
			all = append(all, d.Name+" "+d.InForce)
		}
		return all
	}},
}

// showAll prints the policies that are known.
func (c *policyShow) showAll(ctx context.Context, cluster kafka.Config) error {
	_, all, err := knownPolicies(ctx, c.kafkaFlags, cluster)
	if err != nil {
		return err
	}
	return printRows(c.Output, rowsOf(all), policyColumns)
}
