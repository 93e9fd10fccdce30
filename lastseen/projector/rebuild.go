package projector

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

const confirmBatch = 1000 // users

// rebuild writes a partition's users again from the status topic, under a new epoch. found is the
// progress in Redis, to the one to write at the end, except for its epoch.
//
// During the rebuild the progress says so, and absent keys count as unknown. Users that the
// rebuild does not find are offline; their entries are of an older epoch and no longer count. A
// Redis that is emptied during the rebuild loses the progress, which the last step notices.
func (p *Projector) rebuild(ctx context.Context, part *partition, found, to redisview.Progress) error {
	intact, err := p.view.CheckNodes(ctx)
	if err != nil {
		return err
	}
	replace := part.restored || found.Replacing // the one who began may have been stopped
	reason, level := "regressed", slog.LevelWarn
	switch {
	case replace:
		reason = "restored_log"
	case found == (redisview.Progress{}) && part.neverFilled:
		reason, level = "new", slog.LevelInfo
	case found == (redisview.Progress{}):
		reason = "empty"
	case found.Epoch < intact:
		reason = "node_empty"
	}
	begun := redisview.Progress{Epoch: max(p.now().UnixMilli(), part.progress.Epoch+1, found.Epoch+1, intact+1), Rebuilding: true, Replacing: replace}
	if err := p.mustMove(ctx, part.number, found, begun); err != nil {
		return err
	}
	part.neverFilled = false
	p.log.Log(ctx, level, "rebuilding Redis from the status topic", "partition", part.number, "reason", reason, "epoch", begun.Epoch)
	p.metrics.ProjectorRebuilds.WithLabelValues(reason).Inc()

	users, err := p.confirmAll(ctx, part, begun)
	if err != nil {
		return fmt.Errorf("rebuilding partition %d in Redis: %w", part.number, err)
	}
	ended := to
	ended.Epoch = begun.Epoch
	if err := p.write(ctx, part, begun.Epoch); err != nil {
		return err
	}
	if err := p.mustMove(ctx, part.number, begun, ended); err != nil {
		return err
	}
	p.setProgress(part, ended)
	p.log.InfoContext(ctx, "rebuilt Redis", "partition", part.number, "users", users, "epoch", begun.Epoch)
	return nil
}

func (p *Projector) confirmAll(ctx context.Context, part *partition, begun redisview.Progress) (int, error) {
	users := 0
	batch := make([]schemas.Current, 0, confirmBatch)
	names := make([]schemas.Name, 0, confirmBatch) // of batch
	flush := func() error {
		ctx, cancel := context.WithTimeout(ctx, p.config.WriteTimeout)
		defer cancel()
		if _, err := p.view.Confirm(ctx, begun.Epoch, p.withTimes(ctx, batch), names, begun.Replacing); err != nil {
			return err
		}
		if err := p.wantLists(ctx, batch); err != nil {
			return err
		}
		users += len(batch)
		p.metrics.ProjectorRebuilt.Add(float64(len(batch)))
		batch, names = batch[:0], names[:0]
		return nil
	}
	err := p.statuses(ctx, part.number, func(status schemas.Status) error {
		c := status.Current()
		c.Hidden = 0 // the status has the newest version, not that of the hide
		batch = append(batch, c)
		names = append(names, status.Name)
		if len(batch) < confirmBatch {
			return nil
		}
		return flush()
	})
	if err != nil {
		return users, err
	}
	return users, flush()
}

// wantLists makes Watermark fill the lists of denied viewers that Redis lacks.
func (p *Projector) wantLists(ctx context.Context, batch []schemas.Current) error {
	var users []schemas.UserID
	var at []schemas.Version
	for _, c := range batch {
		if c.Override.Audience != 0 {
			users, at = append(users, c.User), append(at, c.Override.Audience)
		}
	}
	_, err := p.view.Denying(ctx, 0, users, at) // whoever misses a list wants it
	return err
}

// withTimes replaces the times of statuses by those that may be shown. A status has the detector's
// own times, also of what happened while the user hid. If the durable store lacks the newest
// change or does not answer, the times stay unknown, and reads ask the store.
func (p *Projector) withTimes(ctx context.Context, batch []schemas.Current) []schemas.Current {
	if p.durable == nil || len(batch) == 0 {
		return batch
	}
	ids := make([]schemas.UserID, len(batch))
	for i, c := range batch {
		ids[i] = c.User
	}
	known, err := p.durable.Users(ctx, ids)
	if err != nil {
		p.log.WarnContext(ctx, "the durable store did not answer during a rebuild; reads of these users ask it later", "users", len(ids), "error", err)
	}
	for i, c := range batch {
		if row, ok := known[c.User]; ok && store.Has(row, c) {
			batch[i] = row
			continue
		}
		batch[i].Since, batch[i].LastSeen, batch[i].LastActive = 0, 0, 0
	}
	return batch
}

// mustMove changes progress that nobody else should change. On an error the next attempt starts
// over.
func (p *Projector) mustMove(ctx context.Context, number int32, from, to redisview.Progress) error {
	found, err := p.compareAndMove(ctx, number, from, to)
	if err != nil {
		return err
	}
	if found != to {
		return fmt.Errorf("the progress of partition %d changed during its rebuild in Redis", number)
	}
	return nil
}
