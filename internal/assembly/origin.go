package assembly

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// Origin tells which transitions can be of the detector's log. Whoever may write to
// presence.transitions could else freeze a user for ever: consumers drop what is not
// newer than the greatest version they have seen. Any goroutine may use it.
type Origin struct {
	look func(ctx context.Context, partition int32) (uint32, error)
	now  func() time.Time

	mu     sync.Mutex // not held while looking
	epochs map[int32]epochKnown
}

type epochKnown struct {
	epoch uint32 // 0: the detector has committed none
	at    time.Time
}

const (
	// lookAgain is how often it is looked for a newer log epoch at most, so that forged
	// records cannot have each of them asked about.
	lookAgain   = time.Second
	lookTimeout = 5 * time.Second
	// ahead is by how much a transition's instants may be later than its record: they are
	// log time, the record's is of the detector's clock.
	ahead = schemas.Millis(60_000)
)

// NewOrigin looks for log epochs in the detector's commits.
func NewOrigin(kafka stream.Config, reader *stream.Reader) *Origin {
	group := kafka.GroupName(detectorGroup)
	return &Origin{now: time.Now, epochs: map[int32]epochKnown{}, look: func(ctx context.Context, partition int32) (uint32, error) {
		return reader.LogEpoch(ctx, group, schemas.Heartbeats, partition)
	}}
}

// Check is a *schemas.FieldError for a transition that cannot be of this log: its log
// epoch is not known, or an instant is more than a minute later than the record and now.
// (Both, because the clock of the detector that stamped the record may be slow.) A log
// epoch begins after the one of the last commit, so one more than that is known. Any other
// error says that it could not be looked up. partition is the user's, at the record's time.
func (o *Origin) Check(partition int32, at schemas.Millis, t *schemas.Transition) error {
	limit := max(at, schemas.MillisOf(o.now())) + ahead
	for _, instant := range []struct {
		field string
		at    schemas.Millis
	}{{"at_ms", t.At}, {"last_seen_at_ms", t.LastSeen}, {"last_active_at_ms", t.LastActive}} {
		if instant.at > limit {
			return &schemas.FieldError{Code: "not_of_this_log", Field: instant.field,
				Reason: fmt.Sprintf("%s is more than a minute later than the record, which no detector of this log writes", instant.at)}
		}
	}
	epoch := t.Version.LogEpoch()
	known, err := o.known(partition, epoch)
	if err != nil {
		return fmt.Errorf("looking up the log epoch of partition %d: %w", partition, err)
	}
	if known != 0 && epoch > known+1 {
		return &schemas.FieldError{Code: "not_of_this_log", Field: "version",
			Reason: fmt.Sprintf("is of log epoch %d, the detector's is %d", epoch, known)}
	}
	return nil
}

// known is the detector's log epoch, looked up again where it does not account for epoch.
func (o *Origin) known(partition int32, epoch uint32) (uint32, error) {
	o.mu.Lock()
	last, looked := o.epochs[partition]
	o.mu.Unlock()
	now := o.now()
	if looked && (last.epoch != 0 && epoch <= last.epoch+1 || now.Sub(last.at) < lookAgain) {
		return last.epoch, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	found, err := o.look(ctx, partition)
	if err != nil {
		return 0, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.epochs[partition] = epochKnown{epoch: max(found, o.epochs[partition].epoch), at: now}
	return o.epochs[partition].epoch, nil
}

// origin is made once in a process.
func (h *house) origin() (*Origin, error) {
	if h.ofThisLog == nil {
		reader, err := stream.NewReader(h.config.Kafka, h.log)
		if err != nil {
			return nil, err
		}
		h.closeLater("reader of log epochs", func(context.Context) error { reader.Close(); return nil })
		h.ofThisLog = NewOrigin(h.config.Kafka, reader)
	}
	return h.ofThisLog, nil
}

// decode is schemas.DecodeLoggedTransition of what can be of this log.
func (o *Origin) decode(r *schemas.Record) (schemas.Logged[*schemas.Transition], error) {
	item, err := schemas.DecodeLoggedTransition(r)
	if err == nil {
		err = o.Check(r.Partition, r.Time, item.Message)
	}
	return item, err
}

// checkStatus is Check of what a status says.
func (o *Origin) checkStatus(partition int32, r *schemas.Record, s *schemas.Status) error {
	return o.Check(partition, r.Time, &schemas.Transition{User: s.User, Version: s.Version, At: s.Since, LastSeen: s.LastSeen, LastActive: s.LastActive})
}
