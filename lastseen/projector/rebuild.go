package projector

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// confirmTrip is how many users of a rebuild go to Redis at a time.
const confirmTrip = 1000

// rebuild writes a partition's users anew from the status topic, under a new
// epoch. found is the mark that is in Redis, to the one to put there in the end,
// but for its epoch.
//
// While it goes on the mark says so, and absent keys count as unknown. Users
// whom the rebuild does not meet are offline; what Redis may still hold of them
// is of an older epoch and no longer counts. A Redis that is emptied during the
// rebuild loses the mark, which is noticed at its end.
func (p *Projector) rebuild(ctx context.Context, part *partition, found, to redisview.Mark) error {
	founded, err := p.view.Found(ctx)
	if err != nil {
		return err
	}
	reason, level := "regressed", slog.LevelWarn
	switch {
	case found == (redisview.Mark{}) && part.unfilled:
		reason, level = "new", slog.LevelInfo
	case found == (redisview.Mark{}):
		reason = "empty"
	case found.Epoch < founded:
		reason = "node_empty"
	}
	begun := redisview.Mark{Epoch: max(p.now().UnixMilli(), part.mark.Epoch+1, found.Epoch+1, founded+1), Rebuilding: true}
	if err := p.mustMove(ctx, part.number, found, begun); err != nil {
		return err
	}
	part.unfilled = false
	p.log.Log(ctx, level, "rebuilding Redis from the status topic", "partition", part.number, "reason", reason, "epoch", begun.Epoch)
	p.metrics.ProjectorRebuilds.WithLabelValues(reason).Inc()

	users, err := p.confirmAll(ctx, part.number, begun.Epoch)
	if err != nil {
		return fmt.Errorf("rebuilding partition %d in Redis: %w", part.number, err)
	}
	ended := redisview.Mark{Epoch: begun.Epoch, Watermark: to.Watermark, Next: to.Next}
	if err := p.write(ctx, part, begun.Epoch); err != nil {
		return err
	}
	if err := p.mustMove(ctx, part.number, begun, ended); err != nil {
		return err
	}
	p.settle(part, ended)
	p.log.InfoContext(ctx, "rebuilt Redis", "partition", part.number, "users", users, "epoch", begun.Epoch)
	return nil
}

func (p *Projector) confirmAll(ctx context.Context, number int32, epoch int64) (int, error) {
	users := 0
	trip := make([]schemas.Current, 0, confirmTrip)
	flush := func() error {
		ctx, cancel := context.WithTimeout(ctx, p.config.WriteTimeout)
		defer cancel()
		if _, err := p.view.Confirm(ctx, epoch, p.withTimes(ctx, trip)); err != nil {
			return err
		}
		users += len(trip)
		p.metrics.ProjectorRebuilt.Add(float64(len(trip)))
		trip = trip[:0]
		return nil
	}
	err := p.statuses(ctx, number, func(status schemas.Status) error {
		c := status.Current()
		c.Hidden = 0 // the status tells the newest version, not that of the hide
		trip = append(trip, c)
		if len(trip) < confirmTrip {
			return nil
		}
		return flush()
	})
	if err != nil {
		return users, err
	}
	return users, flush()
}

// withTimes is what statuses say of users, with the times that may be shown. Those of a
// status are the detector's own, also of what happened while the user hid; where the
// durable store does not have the same change or a newer one, or does not answer, they
// are left open, and reads ask it.
func (p *Projector) withTimes(ctx context.Context, trip []schemas.Current) []schemas.Current {
	if p.durable == nil || len(trip) == 0 {
		return trip
	}
	ids := make([]schemas.UserID, len(trip))
	for i, c := range trip {
		ids[i] = c.User
	}
	known, err := p.durable.Users(ctx, ids)
	if err != nil {
		p.log.WarnContext(ctx, "the store does not tell the times of users, which reads will ask it for", "users", len(ids), "error", err)
	}
	for i, c := range trip {
		if row, ok := known[c.User]; ok && row.Version >= c.Version {
			trip[i] = row
			continue
		}
		trip[i].Since, trip[i].LastSeen, trip[i].LastActive = 0, 0, 0
	}
	return trip
}

// mustMove moves a mark that nobody else should be moving; when somebody does,
// the next attempt finds out more.
func (p *Projector) mustMove(ctx context.Context, number int32, from, to redisview.Mark) error {
	found, err := p.compareAndMove(ctx, number, from, to)
	if err != nil {
		return err
	}
	if found != to {
		return fmt.Errorf("the mark of partition %d changed during its rebuild in Redis", number)
	}
	return nil
}
