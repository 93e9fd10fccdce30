package policy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// Known are the policies that are in force or were.
type Known struct {
	// All are sorted by the time since which they are known, the oldest first.
	All []KnownPolicy
}

// KnownPolicy is a policy that is in force or was. Since is when it came into force first.
type KnownPolicy struct {
	schemas.PolicyRecord
	// LastSince is when it came into force last, by the checkpoints and the policies of tenants; 0: when the
	// pipeline began, or they do not have it any more.
	LastSince schemas.Millis
	// Unverified is set if only the topic policies says Since: whoever may write to it may have said anything.
	Unverified bool
}

// ReadKnown returns what the topic policies, the checkpoints of the detector's group and the policies of tenants
// (nil in int mode) tell together.
func ReadKnown(ctx context.Context, reader *kafka.Reader, checkpoints map[int32]*schemas.Checkpoint, tenants []SetPolicy) (k Known, err error) {
	kept, err := readKept(ctx, reader)
	if err != nil {
		return k, err
	}
	for id, p := range kept {
		p.LastSince, p.Unverified = 0, true
		kept[id] = p
	}
	for id, p := range everInForce(checkpoints, tenants) {
		if before, known := kept[id]; known && before.Since < p.Since {
			p.Since, p.Unverified = before.Since, true
		}
		kept[id] = p
	}
	k.All = slices.SortedFunc(maps.Values(kept), func(a, b KnownPolicy) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), strings.Compare(a.Policy.ID(), b.Policy.ID()))
	})
	return k, nil
}

// Load is ReadKnown for a program that has read nothing yet. named: the pipeline has tenants.
func Load(ctx context.Context, cluster kafka.Config, reader *kafka.Reader, named bool) (Known, error) {
	checkpoints, err := Checkpoints(ctx, cluster)
	if err != nil {
		return Known{}, err
	}
	var tenants []SetPolicy
	if named {
		if tenants, err = OfTenants(ctx, reader); err != nil {
			return Known{}, err
		}
	}
	return ReadKnown(ctx, reader, checkpoints, tenants)
}

// idLength is the number of digits of a policy's id, and shortestID how many of the first have to be given.
const idLength, shortestID = 12, 4

var idForm = regexp.MustCompile(fmt.Sprintf(`^[0-9a-f]{%d,%d}$`, shortestID, idLength))

// IsID reports whether text may be the id of a policy, or the beginning of one.
func IsID(text string) bool { return idForm.MatchString(text) }

// Find returns the policy whose id begins with id. The errors say what is wrong with id, that several policies have
// such ids, or that none is known and why.
func (k Known) Find(id string) (KnownPolicy, error) {
	if !IsID(id) {
		return KnownPolicy{}, schemas.Invalid("policy id", fmt.Sprintf("%q is none: it must be the %d hexadecimal digits of a policy_id, or at least the first %d", id, idLength, shortestID))
	}
	var found []KnownPolicy
	var ids []string
	for _, p := range k.All {
		if strings.HasPrefix(p.Policy.ID(), id) {
			found, ids = append(found, p), append(ids, p.Policy.ID())
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return KnownPolicy{}, schemas.Invalid("policy id", fmt.Sprintf("%q may be each of %s: give more digits", id, strings.Join(ids, ", ")))
	}
	return KnownPolicy{}, fmt.Errorf("policy %s was never in force here; \"stillhere policy show all\" prints those that are known", id)
}

// Policies are the policies without their times.
func (k Known) Policies() []schemas.Policy {
	all := make([]schemas.Policy, len(k.All))
	for i, p := range k.All {
		all[i] = p.Policy
	}
	return all
}

// records are policies by their ids.
type records map[string]KnownPolicy

// add keeps the first and the last instant of a policy.
func (r records) add(p schemas.PolicyRecord) {
	id := p.Policy.ID()
	known, ok := r[id]
	if !ok || p.Since < known.Since {
		known.PolicyRecord = p
	}
	known.LastSince = max(known.LastSince, p.Since)
	r[id] = known
}

// readKept reads the topic policies, which nothing writes in a transaction. Records that this program cannot read are left out.
func readKept(ctx context.Context, reader *kafka.Reader) (records, error) {
	all := records{}
	_, err := reader.Partitions(ctx, schemas.Policies) // Read would wait for a topic that is missing
	if err == nil {
		err = reader.Read(ctx, schemas.Policies, 0, -1, -1, false, func(r *schemas.Record) error {
			if p, err := schemas.DecodePolicyRecord(r.Key, r.Value); err == nil {
				all.add(p)
			}
			return nil
		})
	}
	switch {
	case kafka.IsMissingTopic(err):
		return nil, fmt.Errorf("reading the policies of the past: %w; \"stillhere topics apply\" creates the topic", err)
	case err != nil:
		return nil, fmt.Errorf("reading the policies of the past: %w", err)
	}
	return all, nil
}

// everInForce are the policies that checkpoints and the policies of tenants, the newest last, tell of.
func everInForce(checkpoints map[int32]*schemas.Checkpoint, tenants []SetPolicy) records {
	all := records{}
	for _, c := range checkpoints {
		all.addPartition(c.Policy, tenants)
	}
	return all
}

// addPartition adds the policy of one partition, and what it is with the settings of tenants.
func (r records) addPartition(in schemas.PolicyInForce, tenants []SetPolicy) {
	if in == (schemas.PolicyInForce{}) {
		return
	}
	r.add(schemas.PolicyRecord{Policy: in.Policy, Since: in.At})
	for _, t := range tenants {
		r.add(schemas.PolicyRecord{Policy: in.Policy.For(t.Policy), Since: max(in.At, t.At)})
	}
}
