package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"time"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// The lines of an export, each with its type. 64-bit numbers are strings, times RFC 3339 UTC or null. In
// int mode user_id is the decimal id.
type (
	// presenceLine is what is known now, hidden or not: at most one line.
	presenceLine struct {
		Type string `json:"type"` // presence
		schemas.NamedUser
		State      string             `json:"state"`
		Since      schemas.Millis     `json:"since"`
		LastSeen   schemas.Millis     `json:"last_seen_at"`
		LastActive schemas.Millis     `json:"last_active_at"`
		Devices    []string           `json:"devices"`
		Kinds      schemas.KindStates `json:"kinds"`
		Visibility string             `json:"visibility"`
		Version    schemas.Version    `json:"version,string"`
		Override   json.RawMessage    `json:"override,omitempty"`
	}
	// changeLine is a change in the audit log, also of the time in which the user hid; oldest first.
	changeLine struct {
		Type       string             `json:"type"` // change
		Event      string             `json:"event_id"`
		Version    schemas.Version    `json:"version,string"`
		At         schemas.Millis     `json:"changed_at"`
		From       string             `json:"from_state"`
		To         string             `json:"to_state"`
		Cause      string             `json:"cause"`
		Device     schemas.DeviceID   `json:"device_id"` // 0: no device caused it
		Devices    []string           `json:"device_kinds"`
		Kinds      schemas.KindStates `json:"kinds"`
		LastSeen   schemas.Millis     `json:"last_seen_at"`
		LastActive schemas.Millis     `json:"last_active_at"`
		Visibility string             `json:"visibility"`
		Policy     string             `json:"policy_id"`
		LeftOut    uint32             `json:"left_out"`
		Override   json.RawMessage    `json:"override,omitempty"`
	}
	// erasureLine is what is left of an erased user until the day of the receipt; at most one line.
	erasureLine struct {
		Type string `json:"type"` // erasure
		schemas.NamedUser
		Version schemas.Version `json:"version,string"`
		GoneOn  string          `json:"last_copy_gone_on"`
	}
	// statusLine is the newest record of presence.status: at most one line, of users who are present, hide,
	// have shown again, or were erased.
	statusLine struct {
		Type string `json:"type"` // status
		schemas.NamedUser
		State       string             `json:"state"`
		Since       schemas.Millis     `json:"since"`
		LastSeen    schemas.Millis     `json:"last_seen_at"`
		LastActive  schemas.Millis     `json:"last_active_at"`
		Devices     []string           `json:"device_kinds"`
		Kinds       schemas.KindStates `json:"kinds"`
		Visibility  string             `json:"visibility"`
		Version     schemas.Version    `json:"version,string"`
		UnsureSince schemas.Millis     `json:"unsure_since,omitempty"` // only devices of lost gateways are present
		ShownAt     schemas.Millis     `json:"shown_at,omitempty"`     // the last end of a hidden time
		Erased      schemas.Version    `json:"erased_version,string,omitempty"`
		Override    json.RawMessage    `json:"override,omitempty"`
	}
	// deniedLine is a viewer to whom the user looks hidden.
	deniedLine struct {
		Type string `json:"type"` // denied
		schemas.NamedUser
		Since schemas.Millis `json:"since"`
	}
	// edgeLine is a user who follows this one (follower), or whom this one follows (follows).
	edgeLine struct {
		Type string `json:"type"`
		schemas.NamedUser
	}
)

// Export is where an export is read from.
type Export struct {
	Named bool // users have names
	Store ExportStore
	Graph *graph.Store // nil: there is none
	// Status returns the newest status of a user that was written after an instant; nil: there is none. The
	// field is nil if statuses are not exported.
	Status func(ctx context.Context, user schemas.UserID, after schemas.Millis) (*schemas.Status, error)
}

// ErrStatus marks errors of an export that could not read the status.
var ErrStatus = errors.New("reading the status of the user")

// ExportStore is what an export reads of a durable store.
type ExportStore interface {
	Users(ctx context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.Current, error)
	Names(ctx context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.UserName, error)
	Changes(ctx context.Context, of store.Range, each func(*store.Entry) error) error
	ErasureOf(ctx context.Context, user schemas.UserID) (store.Erasure, error)
	DeniedBy(ctx context.Context, user, after schemas.UserID, limit int) ([]schemas.Denial, schemas.Version, error)
}

// Write writes everything that is held of a user, as JSON lines. In int mode there is no name.
func (x Export) Write(ctx context.Context, user schemas.UserID, name schemas.Name, to io.Writer) error {
	lines, shown := json.NewEncoder(to), x.shown(user, name)
	users, err := x.Store.Users(ctx, []schemas.UserID{user})
	if err != nil {
		return err
	}
	c, known := users[user]
	if known {
		err = lines.Encode(presenceLine{"presence", shown, schemas.StateWord(c.State), c.Since, c.LastSeen, c.LastActive, c.Kinds.Words(),
			c.Kinds.States(), schemas.VisibilityWord(c.Visibility), c.Version, json.RawMessage(c.Override.Text())})
	}
	if err != nil {
		return err
	}
	erasure, err := x.Store.ErasureOf(ctx, user)
	if err == nil && erasure.User != 0 {
		err = lines.Encode(erasureLine{"erasure", shown, erasure.Version, erasure.Until.Time().Format(time.DateOnly)})
	}
	if err == nil {
		err = x.writeDenied(ctx, lines, user)
	}
	if err != nil {
		return err
	}
	last := c.Since
	err = x.Store.Changes(ctx, store.Range{User: user}, func(e *store.Entry) error {
		last = e.At
		return lines.Encode(changeLine{"change", string(e.Event[:]), e.Version, e.At, schemas.StateWord(e.From), schemas.StateWord(e.To),
			schemas.CauseWord(e.Cause), e.Device, e.Kinds.Words(), e.Kinds.States(), e.LastSeen, e.LastActive,
			schemas.VisibilityWord(e.Visibility), e.Policy, e.LeftOut, json.RawMessage(e.Override.Text())})
	})
	if err == nil {
		err = x.writeStatus(ctx, lines, user, shown, last)
	}
	if err != nil || x.Graph == nil {
		return err
	}
	err = x.writeEdges(ctx, lines, "follower", func(after schemas.UserID) ([]schemas.UserID, error) {
		return x.Graph.Page(ctx, nil, user, after, graph.LastID, edgesAtOnce)
	})
	if err != nil {
		return err
	}
	return x.writeEdges(ctx, lines, "follows", func(after schemas.UserID) ([]schemas.UserID, error) {
		return x.Graph.Followed(ctx, user, after, edgesAtOnce)
	})
}

// writeDenied writes the list of denied viewers.
func (x Export) writeDenied(ctx context.Context, lines *json.Encoder, user schemas.UserID) error {
	list, _, err := x.Store.DeniedBy(ctx, user, 0, store.All)
	if err != nil {
		return err
	}
	viewers := make([]schemas.UserID, len(list))
	for i, d := range list {
		viewers[i] = d.Viewer
	}
	var names graph.Names
	if x.Named {
		names, err = x.namesOf(ctx, viewers)
	}
	for i := 0; i < len(list) && err == nil; i++ {
		err = lines.Encode(deniedLine{"denied", x.shown(list[i].Viewer, names[list[i].Viewer]), list[i].At})
	}
	return err
}

const (
	// statusTimeout bounds the search for the status.
	statusTimeout = 30 * time.Second
	// unstored is how far the store may be behind: a status of a user whom it does not know is newer.
	unstored = time.Hour
)

// writeStatus writes the status. last is when the newest change of the user that is known happened: the
// newest status was written then or later. So the topic is not read from its beginning.
func (x Export) writeStatus(ctx context.Context, lines *json.Encoder, user schemas.UserID, shown schemas.NamedUser, last schemas.Millis) error {
	if x.Status == nil {
		return nil
	}
	if last == 0 {
		last = schemas.MillisOf(time.Now().Add(-unstored))
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	s, err := x.Status(ctx, user, last)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStatus, err)
	}
	if s == nil {
		return nil
	}
	return lines.Encode(statusLine{"status", shown, schemas.StateWord(s.State), s.Since, s.LastSeen, s.LastActive, s.Kinds.Words(),
		s.Kinds.States(), schemas.VisibilityWord(s.Visibility), s.Version, s.UnsureSince, s.ShownAt, s.ErasedVersion,
		json.RawMessage(s.Override.Text())})
}

// detectorSlack is how far the clock of a detector, which stamps the statuses, may be behind the brokers',
// which says when changes happened.
const detectorSlack = schemas.Millis(time.Minute / time.Millisecond)

// Statuses reads presence.status.
type Statuses struct{ reader *kafka.Reader }

// OpenStatuses opens it without waiting for Kafka.
func OpenStatuses(at Kafka, log *slog.Logger) (*Statuses, error) {
	cluster, err := at.cluster()
	if err != nil {
		return nil, err
	}
	return openStatuses(cluster, log)
}

func openStatuses(cluster kafka.Config, log *slog.Logger) (*Statuses, error) {
	reader, err := kafka.NewReader(cluster, log)
	return &Statuses{reader}, err
}

// Close closes its connections.
func (s *Statuses) Close() { s.reader.Close() }

// Of is the Status of an Export.
func (s *Statuses) Of(ctx context.Context, user schemas.UserID, after schemas.Millis) (newest *schemas.Status, err error) {
	partitions, err := s.reader.Partitions(ctx, schemas.Statuses)
	if err != nil {
		return nil, err
	}
	partition, key := schemas.PartitionOf(user, partitions), user.Key()
	from, err := s.reader.OffsetSince(ctx, schemas.Statuses, partition, after-detectorSlack)
	if err != nil {
		return nil, err
	}
	err = s.reader.Read(ctx, schemas.Statuses, partition, from, -1, true, func(r *schemas.Record) error {
		if !bytes.Equal(r.Key, key) {
			return nil
		}
		if newest = nil; r.Value == nil {
			return nil
		}
		newest, err = schemas.DecodeStatus(r.Value)
		return err
	})
	return newest, err
}

const edgesAtOnce = 10_000

// shown is a user in a line.
func (x Export) shown(user schemas.UserID, name schemas.Name) schemas.NamedUser {
	if !x.Named {
		name.Text = user.String()
	}
	return name.Shown()
}

// writeEdges writes the pages that next returns, each after the last user of the one before. In text mode
// user_id is null where the name is not known.
func (x Export) writeEdges(ctx context.Context, lines *json.Encoder, kind string,
	next func(after schemas.UserID) ([]schemas.UserID, error)) error {
	for after := schemas.UserID(0); ctx.Err() == nil; {
		page, err := next(after)
		var names graph.Names
		if err == nil && x.Named {
			names, err = x.namesOf(ctx, page)
		}
		if err != nil {
			return err
		}
		for _, other := range page {
			if err := lines.Encode(edgeLine{kind, x.shown(other, names[other])}); err != nil {
				return fmt.Errorf("writing the export: %w", err)
			}
		}
		if len(page) < edgesAtOnce {
			return nil
		}
		after = page[len(page)-1]
	}
	return ctx.Err()
}

// namesOf are the names of users who follow, are followed or are denied. The graph has those of edges, also of users who
// never sent a heartbeat, unless the edge was written with SQL.
func (x Export) namesOf(ctx context.Context, users []schemas.UserID) (names graph.Names, err error) {
	if x.Graph != nil {
		names, err = x.Graph.Names(ctx, users)
	}
	if err != nil || len(names) == len(users) {
		return names, err
	}
	all := make(graph.Names, len(users))
	stored, err := x.Store.Names(ctx, users)
	for user, n := range stored {
		all[user] = n.Name
	}
	maps.Copy(all, names)
	return all, err
}
