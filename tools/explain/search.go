package explain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/ksuid"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// transition is one with its place in the topic.
type transition = stream.Logged[*schemas.Transition]

const (
	// slack is how far the detector's clock, which stamps the transitions, may be
	// behind the brokers', which says when they happened.
	slack = schemas.Millis(time.Minute / time.Millisecond)
	// usual is how long after it happened a transition is published at the latest,
	// unless the detector stood still.
	usual = 15 * slack
	// reach is how far from a transition its neighbours are looked for.
	reach = schemas.Millis(24 * time.Hour / time.Millisecond)
	// neighbourhood is how many of them are shown, on either side.
	neighbourhood = 3
)

// errEnough ends a reading early.
var errEnough = errors.New("enough")

type search struct {
	reader   *kafka.Reader
	id       ksuid.KSUID
	user     schemas.UserID
	called   schemas.Name // of user, in text mode
	looked   int
	progress func(records int, reached schemas.Millis)
}

// findFor finds the transition that the options name.
func (s *search) findFor(ctx context.Context, o *Options) (found transition, err error) {
	if o.Event == "" && o.At != 0 && o.User != 0 {
		return s.findAt(ctx, o.At)
	}
	if s.id, err = parseEvent(o.Event); err != nil {
		return found, err
	}
	return s.find(ctx)
}

// findAt looks for the last transition of the user at or before an instant. It reads from some time before the
// instant on up to the end of the log, because a transition may be published later, and an erasure that makes it
// void still later; and then ever older ones.
func (s *search) findAt(ctx context.Context, at schemas.Millis) (found transition, err error) {
	count, err := s.reader.Partitions(ctx, schemas.Transitions)
	if err != nil {
		return found, err
	}
	partition := schemas.PartitionOf(s.user, count)
	start, to, err := s.reader.Bounds(ctx, schemas.Transitions, partition)
	if err != nil {
		return found, err
	}
	key, void := s.user.Key(), schemas.Version(0)                                         // changes up to the version void were erased
	for back := reach / 144; found.Message == nil && void == 0 && start < to; back *= 6 { // 10 min, 1 h, 6 h, …
		from := start
		if back < at {
			if from, err = s.reader.OffsetSince(ctx, schemas.Transitions, partition, at-back); err != nil {
				return found, err
			}
		}
		err = s.reader.Read(ctx, schemas.Transitions, partition, from, to, true, func(r *schemas.Record) error {
			s.look(r)
			if !bytes.Equal(r.Key, key) {
				return nil
			}
			l, err := stream.DecodeTransition(r)
			switch {
			case err != nil: // it is not what is looked for
			case l.Message.Cause == schemas.Erased:
				void = max(void, l.Message.Version)
			case l.Message.At <= at && (found.Message == nil || l.Message.Version > found.Message.Version):
				found = l
			}
			return nil
		})
		if err != nil {
			return found, err
		}
		to = min(to, from)
	}
	if found.Message == nil || found.Message.Version <= void {
		return transition{}, fmt.Errorf("there is no change of user %s at or before %s among %d transitions of its partition (%d of %d): "+
			"retention may have taken older ones (stillhere replay asks Postgres), and those of erased users are left out",
			s.userText(), at, s.looked, partition, count)
	}
	return found, nil
}

// userText is the user for people.
func (s *search) userText() string {
	if s.called.Text != "" {
		return s.called.String()
	}
	return s.user.String()
}

// find looks for the transition: first where it should be, then in all that was
// published later.
func (s *search) find(ctx context.Context) (transition, error) {
	count, err := s.reader.Partitions(ctx, schemas.Transitions)
	if err != nil {
		return transition{}, err
	}
	first, last := int32(0), count-1
	if s.user != 0 {
		first = schemas.PartitionOf(s.user, count)
		last = first
	}
	at := schemas.MillisOf(s.id.Time())
	for _, span := range [][2]schemas.Millis{{at - slack, at + usual}, {at + usual, 0}} {
		for p := first; p <= last; p++ {
			found, err := s.findIn(ctx, p, span[0], span[1])
			if err == nil && found.Message != nil {
				if erased, err := s.erased(ctx, found); err != nil || !erased {
					return found, err
				}
				return transition{}, s.notFound(count)
			}
			if err != nil {
				return found, err
			}
		}
	}
	return transition{}, s.notFound(count)
}

func (s *search) notFound(count int32) error {
	where, since := "any partition", schemas.MillisOf(s.id.Time())-slack
	if s.user != 0 {
		where = fmt.Sprintf("the partition of user %s (%d of %d)", s.userText(), schemas.PartitionOf(s.user, count), count)
	}
	return fmt.Errorf("there is no event %s in %s: %d transitions published since %s were looked at; "+
		"older ones may have been taken by retention (stillhere replay asks Postgres), and those of erased users are left out",
		s.id, where, s.looked, since.Time().Format(time.RFC3339))
}

// erased reports whether an erasure has made a transition void, or it is one itself.
func (s *search) erased(ctx context.Context, of transition) (erased bool, err error) {
	key := of.Message.User.Key()
	var t schemas.Transition
	err = s.reader.Read(ctx, schemas.Transitions, of.Partition, of.Offset, -1, true, func(r *schemas.Record) error {
		s.look(r)
		if !bytes.Equal(r.Key, key) {
			return nil
		}
		if _, err := t.Scan(r.Value); err == nil && t.Cause == schemas.Erased && t.Version >= of.Message.Version {
			erased = true
			return errEnough
		}
		return nil
	})
	return erased, notEnough(err)
}

// findIn looks in one partition, from one time to another (0: the end).
func (s *search) findIn(ctx context.Context, partition int32, since, until schemas.Millis) (found transition, err error) {
	from, err := s.reader.OffsetSince(ctx, schemas.Transitions, partition, since)
	if err != nil {
		return found, err
	}
	to := int64(-1)
	if until != 0 {
		if to, err = s.reader.OffsetSince(ctx, schemas.Transitions, partition, until); err != nil {
			return found, err
		}
	}
	if to >= 0 && from >= to {
		return found, nil
	}
	err = s.reader.Read(ctx, schemas.Transitions, partition, from, to, true, func(r *schemas.Record) error {
		s.look(r)
		l, err := stream.DecodeTransition(r)
		if err != nil {
			return nil // not ours to judge; it is not what we look for
		}
		// The id is a hash: it is worked out only where the second fits.
		if int64(l.Message.At)/1000 != s.id.Time().Unix() || l.Message.EventID() != s.id {
			return nil
		}
		found = l
		return errEnough
	})
	return found, notEnough(err)
}

// neighbours are the transitions of the same user before and after, nearest ones
// only, oldest first.
func (s *search) neighbours(ctx context.Context, of transition) (before, after []transition, err error) {
	for back := reach / 144; ; back *= 6 { // 10 min, 1 h, 6 h, …
		before, after, err = s.around(ctx, of, min(back, reach))
		if err != nil || len(before) == neighbourhood || back >= reach {
			return before, after, err
		}
	}
}

func (s *search) around(ctx context.Context, of transition, back schemas.Millis) (before, after []transition, err error) {
	from, err := s.reader.OffsetSince(ctx, schemas.Transitions, of.Partition, of.Message.At-back)
	if err != nil {
		return nil, nil, err
	}
	key := of.Message.User.Key()
	err = s.reader.Read(ctx, schemas.Transitions, of.Partition, min(from, of.Offset), -1, true, func(r *schemas.Record) error {
		s.look(r)
		if r.Time > of.Time+reach {
			return errEnough
		}
		if !bytes.Equal(r.Key, key) || r.Offset == of.Offset {
			return nil
		}
		l, err := stream.DecodeTransition(r)
		if err != nil {
			return nil
		}
		if r.Offset < of.Offset {
			if l.Message.Cause == schemas.Erased {
				before = nil // those of an erased user are left out
				return nil
			}
			before = append(before, l)
			before = before[max(0, len(before)-neighbourhood):]
			return nil
		}
		after = append(after, l)
		if len(after) == neighbourhood {
			return errEnough
		}
		return nil
	})
	return before, after, notEnough(err)
}

func (s *search) look(at *schemas.Record) {
	s.looked++
	if s.progress != nil && s.looked%1000 == 0 {
		s.progress(s.looked, at.Time)
	}
}

func notEnough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
