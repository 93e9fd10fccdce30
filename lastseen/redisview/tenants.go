package redisview

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	_ "embed"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/schemas"
)

// TenantCounts are how many users of each tenant are present in a partition, and at which log time.
type TenantCounts struct {
	At schemas.Millis
	// Tenants are at most schemas.MaxSeenTenants.
	Tenants []schemas.TenantCounts
	// Others are the users of tenants that are not listed; nil: there are none.
	Others *schemas.Counts
}

//go:embed tenants.lua
var tenantsLua string

var tenantsScript = redis.NewScript(tenantsLua)

// Fields of the hash of a partition: this one has the log time and the counts of tenants that are not
// listed; the others are a letter and a tenant, because the default tenant is the empty text.
const (
	tenantsHead = "@"
	tenantField = "t"
)

func (v *View) tenantsKey(partition int32) string {
	return v.prefix + "counts:" + strconv.Itoa(int(partition))
}

// WriteTenantCounts writes the counts of the tenants of a partition, unless Redis has newer ones.
func (v *View) WriteTenantCounts(ctx context.Context, partition int32, c TenantCounts) error {
	others := ""
	if c.Others != nil {
		others = countsText(c.Others)
	}
	args := make([]any, 0, 2+2*len(c.Tenants))
	args = append(args, appendHex(nil, int64(c.At), 12), others)
	for i := range c.Tenants {
		args = append(args, tenantField+c.Tenants[i].Tenant, countsText(&c.Tenants[i].Counts))
	}
	if err := tenantsScript.Run(ctx, v.client, []string{v.tenantsKey(partition)}, args...).Err(); err != nil {
		return fmt.Errorf("writing the counts of the tenants of partition %d to Redis: %w", partition, err)
	}
	return nil
}

// CountsOfTenant returns the newest counts of a tenant, by partition. A partition is left out of which
// nothing is known, or not whether the tenant has users there: it is not among the largest.
func (v *View) CountsOfTenant(ctx context.Context, tenant string, partitions int32) (map[int32]PartitionCounts, error) {
	asked := make([]*redis.SliceCmd, partitions)
	_, err := v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range asked {
			asked[i] = p.HMGet(ctx, v.tenantsKey(int32(i)), tenantsHead, tenantField+tenant)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the counts of a tenant from Redis: %w", err)
	}
	counts := make(map[int32]PartitionCounts, partitions)
	for i, a := range asked {
		head, _ := a.Val()[0].(string)
		text, listed := a.Val()[1].(string)
		at, others, ok := parseTenantsHead(head)
		if !listed {
			if ok && others == "" {
				counts[int32(i)] = PartitionCounts{At: at}
			}
			continue
		}
		if c, known := parseCounts(head[:min(len(head), 12)] + text); ok && known {
			counts[int32(i)] = c
		}
	}
	return counts, nil
}

// TenantCounts returns the newest counts of all tenants, by partition. They are in no order.
func (v *View) TenantCounts(ctx context.Context, partitions int32) (map[int32]TenantCounts, error) {
	asked := make([]*redis.MapStringStringCmd, partitions)
	_, err := v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range asked {
			asked[i] = p.HGetAll(ctx, v.tenantsKey(int32(i)))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("reading the counts of tenants from Redis: %w", err)
	}
	all := make(map[int32]TenantCounts, partitions)
	for i, a := range asked {
		head := a.Val()[tenantsHead]
		at, others, ok := parseTenantsHead(head)
		if !ok {
			continue
		}
		c := TenantCounts{At: at}
		if sum, known := parseCounts(head); others != "" && known {
			c.Others = &sum.Counts
		}
		for field, text := range a.Val() {
			if counts, known := parseCounts(head[:12] + text); known && field[:1] == tenantField {
				c.Tenants = append(c.Tenants, schemas.TenantCounts{Tenant: field[1:], Counts: counts.Counts})
			}
		}
		all[int32(i)] = c
	}
	return all, nil
}

// parseTenantsHead reads the field tenantsHead: the log time, and the text of the counts behind it.
func parseTenantsHead(text string) (at schemas.Millis, others string, ok bool) {
	if len(text) < 12 {
		return 0, "", false
	}
	var bad uint64
	n := hex12([]byte(text[:12]), &bad)
	return schemas.Millis(n), text[12:], bad == 0
}
