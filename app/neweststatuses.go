package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/lastseen/projector"
	"github.com/stillhere/stillhere/schemas"
)

// statusLog is what newestStatuses needs of a reader of Kafka.
type statusLog interface {
	Bounds(ctx context.Context, topic schemas.Topic, partition int32) (start, end int64, err error)
	Read(ctx context.Context, topic schemas.Topic, partition int32, from, to int64, committed bool, each func(*schemas.Record) error) error
}

// newestStatuses reads the newest status of every user of a partition. The topic may still have older
// ones: compaction lags behind, and never touches its end.
//
// It reads the partition twice: to find where the newest statuses are, and to pass them on. Kept in memory
// they took 1.5 KB a user, their offsets take 40 bytes. Compaction may remove some in between: then these
// users have newer ones behind the end, and that part is read in the same way.
func newestStatuses(reader statusLog, check func(*schemas.Record, *schemas.Status) error, log *slog.Logger) projector.Statuses {
	return func(ctx context.Context, partition int32, each func(schemas.Status) error) error {
		r := statusReading{reader: reader, check: check, log: log, partition: partition}
		from, to, err := reader.Bounds(ctx, schemas.Statuses, partition)
		var missing map[schemas.UserID]int64 // nil: all are
		for err == nil {
			newest := map[schemas.UserID]int64{}
			err = r.read(ctx, from, to, func(offset int64, user schemas.UserID, status *schemas.Status) error {
				if _, wanted := missing[user]; missing != nil && !wanted {
					return nil
				}
				if newest[user] = offset; status == nil {
					delete(newest, user)
				}
				return nil
			})
			if err != nil {
				return err
			}
			err = r.read(ctx, from, to, func(offset int64, user schemas.UserID, status *schemas.Status) error {
				if at, wanted := newest[user]; !wanted || at != offset {
					return nil
				}
				delete(newest, user)
				return each(*status)
			})
			if err != nil || len(newest) == 0 {
				return err
			}
			missing, from = newest, to
			_, to, err = reader.Bounds(ctx, schemas.Statuses, partition)
		}
		return err
	}
}

// statusReading reads statuses of a partition.
type statusReading struct {
	reader    statusLog
	check     func(*schemas.Record, *schemas.Status) error
	log       *slog.Logger
	partition int32
}

// read calls each for the records of users; status is nil for a tombstone, and for a status that stands
// for one. Records that cannot be read are left out: one must not keep a whole partition from being rebuilt.
func (s statusReading) read(ctx context.Context, from, to int64, each func(offset int64, user schemas.UserID, status *schemas.Status) error) error {
	warn := rate.Sometimes{First: 20, Interval: time.Second}
	return s.reader.Read(ctx, schemas.Statuses, s.partition, from, to, true, func(r *schemas.Record) error {
		if schemas.IsRulesKey(r.Key) {
			return nil
		}
		user, err := schemas.UserOfKey(r.Key)
		if err == nil && r.Value == nil {
			return each(r.Offset, user, nil)
		}
		var status *schemas.Status
		if err == nil {
			status, err = schemas.DecodeStatus(r.Value)
		}
		if err == nil {
			err = s.check(r, status)
		}
		if bad := new(schemas.FieldError); err != nil && !errors.As(err, &bad) {
			return err
		}
		if err != nil {
			warn.Do(func() {
				s.log.Error("a status cannot be read; the rebuild skips it", "partition", s.partition, "offset", r.Offset, "error", err)
			})
			return nil
		}
		if status.Absent() {
			status = nil
		}
		return each(r.Offset, user, status)
	})
}
