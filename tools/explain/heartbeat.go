package explain

import (
	"cmp"
	"context"
	"fmt"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// Record is the record of the heartbeats at which the transition came about.
type Record struct {
	// Time is the brokers' append time.
	Time schemas.Millis `json:"time"`
	// Kind is tick, policy, tenant_policy, visibility, override, last_seen, denies, erasure, leased, lease_ended, draining, alive
	// or beats.
	Kind         string         `json:"kind"`
	Gateway      string         `json:"gateway_id,omitempty"`
	GatewayEpoch schemas.Millis `json:"gateway_epoch,omitzero"`
	Sequence     uint64         `json:"sequence,omitempty"`
	Forwarded    bool           `json:"forwarded,omitempty"`
	Beats        int            `json:"beats"` // of all users
	// Rows are those of the user, in order.
	Rows []Row `json:"rows,omitempty"`
	// Visibility is what the record set for the user, if it did.
	Visibility string `json:"visibility,omitempty"`
	// Override is what the record set for the user; "none" if it ended it.
	Override string `json:"override,omitempty"`
	// LastSeen is exact, coarse or never, if the record set it for the user.
	LastSeen string `json:"last_seen,omitempty"`
}

// Row is a beat or bye of the user.
type Row struct {
	Device uint32 `json:"device_id"`
	Kind   string `json:"device_kind"`
	Bye    bool   `json:"bye,omitempty"`
	// Connection is what the row is about. Lost: it broke.
	Connection schemas.ConnectionID `json:"connection_id,omitempty"`
	Lost       bool                 `json:"lost,omitempty"`
	At         schemas.Millis       `json:"at"` // append time less age
	AgeMS      int64                `json:"age_ms"`
	IdleMS     int64                `json:"idle_ms"`
}

// readHeartbeat reads the record at the offset that the version names. Without one, gone is the
// reason.
func readHeartbeat(ctx context.Context, reader *kafka.Reader, of transition, offset int64) (record *Record, gone string, err error) {
	start, end, err := reader.Bounds(ctx, schemas.Heartbeats, of.Partition)
	switch {
	case err != nil:
		return nil, "", err
	case offset < start:
		return nil, fmt.Sprintf("retention has deleted the record: the topic begins at offset %d now", start), nil
	case offset >= end:
		return nil, fmt.Sprintf("the log ends at offset %d: the topic was recreated since, which began another log epoch", end), nil
	}
	gone = "there is no record at that offset any more"
	err = reader.Read(ctx, schemas.Heartbeats, of.Partition, offset, offset+1, false, func(r *schemas.Record) error {
		record, gone = recordOf(r, of)
		return nil
	})
	return record, gone, err
}

// recordOf reads r, if it can be the one.
func recordOf(r *schemas.Record, of transition) (*Record, string) {
	// A transition is published after its record, apart from differences of clocks.
	if r.Time > of.Time+slack {
		return nil, fmt.Sprintf("the record at that offset was written at %s, after the transition was published: the topic was recreated since", r.Time)
	}
	var f schemas.Frame
	if err := f.Decode(r.Value); err != nil {
		return nil, fmt.Sprintf("the record at that offset cannot be read: %v", err)
	}
	record := &Record{Time: r.Time, Kind: "beats", Gateway: string(f.Gateway), GatewayEpoch: f.GatewayEpoch, Sequence: f.Sequence,
		Forwarded: f.Forwarded, Beats: f.Rows()}
	switch {
	case f.Tick:
		record.Kind = "tick"
	case f.Policy != nil:
		record.Kind = "policy"
	case f.TenantPolicy != nil:
		record.Kind = "tenant_policy"
	case f.ErasedUser != 0:
		record.Kind = "erasure"
	case f.VisibilityUser != 0:
		record.Kind = "visibility"
		if f.VisibilityUser == of.Message.User {
			switch {
			case f.Override != nil:
				record.Kind, record.Override = "override", cmp.Or(schemas.OverrideWord(f.Override.State), "none")
			case f.LastSeen != 0:
				record.Kind, record.LastSeen = "last_seen", schemas.LastSeenWord(f.LastSeen)
			case f.Denies != "":
				record.Kind = "denies"
			default:
				record.Visibility = schemas.VisibilityWord(f.Visibility)
			}
		}
	case f.Leased:
		record.Kind = "leased"
	case f.LeaseEnded != 0:
		record.Kind = "lease_ended"
	case f.Draining:
		record.Kind = "draining"
	case f.Rows() == 0:
		record.Kind = "alive"
	}
	rows := f.Beats()
	for b := (schemas.Beat{}); rows.Next(&b); {
		if b.User == of.Message.User {
			record.Rows = append(record.Rows, Row{Device: uint32(b.Device), Kind: schemas.KindWord(b.Kind), Bye: b.Bye,
				Connection: b.Connection, Lost: b.Lost, At: r.Time - b.Age, AgeMS: int64(b.Age), IdleMS: int64(b.Idle)})
		}
	}
	return record, ""
}
