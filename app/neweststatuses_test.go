package app

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// compacted is a log of statuses that is written and compacted after each reading.
type compacted struct {
	records []schemas.Record
	end     int64
	after   []func(*compacted)
	gone    map[schemas.UserID]bool // who ever got a tombstone
}

func (c *compacted) Bounds(context.Context, schemas.Topic, int32) (start, end int64, err error) {
	return 0, c.end, nil
}

func (c *compacted) Read(_ context.Context, _ schemas.Topic, _ int32, from, to int64, _ bool, each func(*schemas.Record) error) error {
	for _, r := range slices.Clone(c.records) {
		if r.Offset < from || r.Offset >= to {
			continue
		}
		if err := each(&r); err != nil {
			return err
		}
	}
	if len(c.after) > 0 {
		c.after[0](c)
		c.after = c.after[1:]
	}
	return nil
}

// write appends a status of a user; version 0: a tombstone.
func (c *compacted) write(user schemas.UserID, version schemas.Version) {
	r := schemas.Record{Offset: c.end, Key: user.Key()}
	if c.end++; version == 0 {
		c.gone[user] = true
	} else {
		s := schemas.Status{User: user, State: schemas.Online, Version: version, Visibility: schemas.Everyone, LastSeen: 1, LastActive: 1, Since: 1}
		r.Value = s.Encode()
	}
	c.records = append(c.records, r)
}

// compact keeps the newest record of each key, and of tombstones none.
func (c *compacted) compact() {
	last := map[string]int64{}
	for _, r := range c.records {
		last[string(r.Key)] = r.Offset
	}
	c.records = slices.DeleteFunc(c.records, func(r schemas.Record) bool { return last[string(r.Key)] != r.Offset || r.Value == nil })
}

func TestARebuildReadsTheNewestStatusOfEveryUserWhileTheTopicIsCompacted(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		next := schemas.Version(0)
		log := &compacted{gone: map[schemas.UserID]bool{}}
		some := func(c *compacted) {
			for range random.IntN(20) {
				if next++; random.IntN(4) == 0 {
					c.write(schemas.UserID(1+random.IntN(10)), 0)
				} else {
					c.write(schemas.UserID(1+random.IntN(10)), next)
				}
			}
			if random.IntN(2) == 0 {
				c.compact()
			}
		}
		some(log)
		atStart := newestOf(log.records)
		clear(log.gone)
		for range random.IntN(6) {
			log.after = append(log.after, some)
		}
		got := map[schemas.UserID]schemas.Version{}
		read := newestStatuses(log, func(*schemas.Record, *schemas.Status) error { return nil }, slog.New(slog.DiscardHandler))
		err := read(t.Context(), 0, func(s schemas.Status) error {
			if _, twice := got[s.User]; twice {
				t.Errorf("seed %d: user %d comes twice", seed, s.User)
			}
			got[s.User] = s.Version
			return nil
		})
		must.Do(t, err)
		now := newestOf(log.records)
		for user, version := range atStart {
			// A transition says what a tombstone behind the start says.
			if is := now[user]; !log.gone[user] && (got[user] < version || got[user] > is) {
				t.Errorf("seed %d: user %d has version %d, had %d at the start and has %d", seed, user, got[user], version, is)
			}
		}
		for user := range got {
			if _, had := atStart[user]; !had {
				t.Errorf("seed %d: user %d had no status at the start", seed, user)
			}
		}
	}
}

func newestOf(records []schemas.Record) map[schemas.UserID]schemas.Version {
	newest := map[schemas.UserID]schemas.Version{}
	for _, r := range records {
		user, _ := schemas.UserOfKey(r.Key)
		if r.Value == nil {
			delete(newest, user)
			continue
		}
		s, _ := schemas.DecodeStatus(r.Value)
		newest[user] = s.Version
	}
	return newest
}
