package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Log is the topic of the transitions. Several goroutines may use it at the same time.
type Log interface {
	Partitions(ctx context.Context) (int32, error)
	// Topic is the topic that has the name now.
	Topic(ctx context.Context) (schemas.TopicID, error)
	// Bounds are the first offset of the partition and the one after the last.
	Bounds(ctx context.Context, partition int32) (start, end int64, err error)
	// OffsetSince is the first offset whose record was published at or after since, or somewhat
	// earlier; the end if there is none.
	OffsetSince(ctx context.Context, partition int32, since schemas.Millis) (int64, error)
	// Read calls each for the committed records from offset from up to but without to, in order.
	// The error is ErrOvertaken if retention has removed some of them. The record is valid until
	// each returns, whose error ends the reading and is returned unchanged.
	Read(ctx context.Context, partition int32, from, to int64, each func(*schemas.Record) error) error
}

// Archive is the durable store. An entry is valid until each returns, whose error ends the reading
// and is returned unchanged.
type Archive interface {
	// Position is how far the partition has been written to the store.
	Position(ctx context.Context, partition int32) (store.Position, error)
	// Changes calls each for the changes of the range, ordered as Entry.Compare does.
	Changes(ctx context.Context, of store.Range, each func(*store.Entry) error) error
	// AsOf calls each, once, for every user of whom a change at or before at is known, with what
	// was in force then: state (To), since when (At), times, devices, visibility and version.
	// Version 0 stands for a user who was present and whose last change until then was dropped:
	// since when and with what devices is not known, and At is the instant asked for. A user whose
	// change to offline was dropped may be missing. Users come in any order; user 0 stands for all.
	// For an instant before the log begins, the error is a *store.ForgottenError, and each is not
	// called.
	AsOf(ctx context.Context, at schemas.Millis, user schemas.UserID, each func(*store.Entry) error) error
	// Erased are the users whom the store remembers as erased, and the versions up to which their
	// changes count for nothing.
	Erased(ctx context.Context) (map[schemas.UserID]schemas.Version, error)
	// LogBegins is the instant from which on changes are kept; 0 if none was ever dropped. It
	// never decreases.
	LogBegins(ctx context.Context) (schemas.Millis, error)
	// TenantEdges are where the log begins later for users of tenants.
	TenantEdges(ctx context.Context) (store.Edges, error)
}

// ErrOvertaken is returned if retention removes records before they are read.
var ErrOvertaken = errors.New("retention has taken records of the topic before they were read; start again")

// ErrRecreated is returned if the topic was deleted and created again, so that offsets read so far
// belong to a removed log.
var ErrRecreated = errors.New("the topic was deleted and created again while it was read; start again")

// checkSameTopic returns ErrRecreated if the name belongs to another topic now.
func checkSameTopic(ctx context.Context, log Log, topic schemas.TopicID) error {
	now, err := log.Topic(ctx)
	if err == nil && now.Differs(topic) {
		err = fmt.Errorf("%w: its id is %s, and was %s", ErrRecreated, now, topic)
	}
	return err
}
