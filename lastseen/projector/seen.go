package projector

import (
	"context"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// Seen writes to Redis when users were heard last, and how many are present. It is a handler of a
// consumer of the topic seen. Nothing of it is needed for a right state: a Redis that was emptied
// has everything again after one interval.
type Seen struct {
	view    *redisview.View
	config  lastseen.Config
	metrics *lastseen.Metrics
	tenants bool // also the counts of tenants
}

// WithTenants makes p write also how many users of each tenant are present, of a pipeline whose users
// have names. It returns p. Call it before Apply.
func (p *Seen) WithTenants() *Seen {
	p.tenants = true
	return p
}

// NewSeen makes a handler. config must be valid.
func NewSeen(view *redisview.View, config lastseen.Config, metrics *lastseen.Metrics) *Seen {
	metrics.SeenUpdates.WithLabelValues("written") // a board shows 0 before the first
	return &Seen{view: view, config: config, metrics: metrics}
}

// DecodeSeen returns how to read the topic, whose users are spread over so many partitions. It
// rejects what no detector writes: users of other partitions, and times beyond the record's.
func DecodeSeen(partitions int32) func(*schemas.Record) (*schemas.Seen, error) {
	const ahead = schemas.Millis(24 * time.Hour / time.Millisecond) // only a topic with LogAppendTime has records older than At
	return func(r *schemas.Record) (*schemas.Seen, error) {
		s, err := schemas.DecodeSeen(r.Value)
		if err != nil {
			return nil, err
		}
		if s.At > r.Time+ahead {
			return nil, schemas.Invalid("at_ms", fmt.Sprintf("%s is more than a day later than the record", s.At))
		}
		for i := range s.Users {
			if schemas.PartitionOf(s.Users[i].User, partitions) != r.Partition {
				return nil, schemas.Invalid("user_ids", fmt.Sprintf("user %d belongs to another partition", s.Users[i].User))
			}
		}
		return s, nil
	}
}

// Apply writes the batch. After an error the same batch may come again.
func (p *Seen) Apply(ctx context.Context, batch stream.Batch[*schemas.Seen]) error {
	ctx, cancel := context.WithTimeout(ctx, p.config.WriteTimeout)
	defer cancel()
	var counted *schemas.Seen // the newest with counts
	var users []redisview.Seen
	for _, s := range batch.Items {
		if s.Counts != nil && (counted == nil || s.At >= counted.At) {
			counted = s
		}
		users = appendUsers(users, s)
	}
	written, err := p.view.WriteSeen(ctx, users)
	if err != nil {
		return fmt.Errorf("partition %d: %w", batch.Partition, err)
	}
	p.metrics.SeenUpdates.WithLabelValues("written").Add(float64(written))
	p.metrics.SeenUpdates.WithLabelValues("older").Add(float64(len(users) - written))
	if counted == nil {
		return nil
	}
	if p.tenants {
		c := redisview.TenantCounts{At: counted.At, Tenants: counted.Tenants, Others: counted.OtherTenants}
		if err := p.view.WriteTenantCounts(ctx, batch.Partition, c); err != nil {
			return err
		}
	}
	return p.view.WriteCounts(ctx, batch.Partition, redisview.PartitionCounts{Counts: *counted.Counts, At: counted.At})
}

func appendUsers(users []redisview.Seen, s *schemas.Seen) []redisview.Seen {
	devices := make([]redisview.Device, len(s.Devices))
	for i, d := range s.Devices {
		devices[i] = redisview.Device{SeenDevice: d, Since: d.At}
	}
	for _, u := range s.Users {
		users = append(users, redisview.Seen{User: u.User, At: s.At, Version: s.Version, Interval: s.Interval,
			Devices: devices[:u.Devices:u.Devices]})
		devices = devices[u.Devices:]
	}
	return users
}
