package detector

import (
	"slices"
	"strconv"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// errNamesInIntMode is why a record with names goes to the dead-letter topic of a pipeline in int
// mode: its ids are hashes of names.
var errNamesInIntMode = &schemas.FieldError{Code: "names_in_int_mode", Field: "named",
	Reason: "this pipeline has --ids int: its users have no names; does the producer belong to another pipeline?"}

// decode decodes a record into frame, without the rows whose user_id is not the id of their name. It
// returns why these rows, or all of the record unless usable, go to the dead-letter topic. It
// depends on nothing but the record and which tenants have policies, so a restore leaves out the same.
func (p *Partition) decode(value []byte, at schemas.Millis) (usable bool, err error) {
	f := &p.frame
	if err := f.Decode(value); err != nil {
		return false, err
	}
	if err := p.checker.Check(f, at); err != nil {
		return false, &refusal{err}
	}
	named, shown := f.Named(), f.VisibilityName != schemas.Name{}
	switch users := p.config.Users; {
	case !named && !shown && f.TenantPolicy == nil:
		return true, nil
	case !users.Text():
		return false, errNamesInIntMode
	case f.TenantPolicy != nil && !p.machine.TenantFits(f.TenantPolicy.Tenant):
		return false, errTooManyTenants
	case shown && !users.Is(f.VisibilityUser, f.VisibilityName):
		return false, idMismatch("visibility.user_id")
	case named:
		return true, p.leaveOutForged()
	}
	return true, nil
}

func idMismatch(field string) error {
	return &schemas.FieldError{Code: "id_mismatch", Field: field,
		Reason: "is not the id of the name under the identity key of the pipeline; does the producer have another key?"}
}

// leaveOutForged removes rows whose user_id is not the id of their name from the frame.
func (p *Partition) leaveOutForged() error {
	forged, first := map[int]bool{}, 0
	var row schemas.NamedRow
	for names, i := p.frame.Names(), 0; names.Next(&row); i++ {
		if !p.config.Users.Is(p.frame.User(row.Row), row.User()) {
			if len(forged) == 0 {
				first = i
			}
			forged[row.Row] = true
		}
	}
	if len(forged) == 0 {
		return nil
	}
	f := &p.frame
	head := schemas.FrameHead{Gateway: schemas.GatewayID(f.Gateway), GatewayEpoch: f.GatewayEpoch, Sequence: f.Sequence,
		Draining: f.Draining, Forwarded: f.Forwarded, ForwardedAt: f.ForwardedAt}
	var beats []schemas.Beat
	to := make([]int, f.Rows()) // where rows go
	rows := f.Beats()
	var beat schemas.Beat
	for i := 0; rows.Next(&beat); i++ {
		to[i] = len(beats)
		if !forged[i] {
			beats = append(beats, beat)
		}
	}
	value := schemas.AppendFrame(nil, head, beats)
	for names := f.Names(); names.Next(&row); {
		if !forged[row.Row] {
			value = schemas.AppendNamedRow(value, to[row.Row], row.User())
		}
	}
	if err := f.Decode(value); err != nil {
		return err
	}
	return idMismatch("named[" + strconv.Itoa(first) + "]")
}

// takeNames takes the names of the frame into the table, and writes those that are new to the topic
// of names. now is the log time at the record.
func (p *Partition) takeNames(now schemas.Millis, out *stream.Outbox) {
	p.names.forget(now)
	var row schemas.NamedRow
	for names := p.frame.Names(); names.Next(&row); {
		user := p.frame.User(row.Row)
		if p.takeName(user, row.User(), out); p.names.isAwaited(user) {
			delete(p.names.awaited, user)
			out.Forwards = append(out.Forwards, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: p.id,
				Value: schemas.AppendVisibility(nil, user, schemas.Everyone)})
		}
	}
	if p.frame.VisibilityName != (schemas.Name{}) {
		p.takeName(p.frame.VisibilityUser, p.frame.VisibilityName, out)
		delete(p.names.awaited, p.frame.VisibilityUser)
	}
}

func (p *Partition) takeName(user schemas.UserID, name schemas.Name, out *stream.Outbox) {
	if schemas.PartitionOf(user, p.router.partitions) != p.id {
		return // is forwarded
	}
	record := schemas.UserName{User: user, Name: name}
	known := p.names.learn(user, name)
	if known == nil {
		p.machine.Named(user, name.Tenant)
	} else {
		p.machine.Named(user, known.tenant())
	}
	switch {
	case known == nil:
		p.tenants.add(name.Tenant, p.machine.CountedAs(user), 1)
	case known.is(name):
		return
	default:
		p.config.Metrics.Collisions.Inc()
		if p.names.isCollided(user) {
			return
		}
		record.Name, record.Other, record.Collided = known.name(), name, true
		p.quarantine(user, out)
	}
	out.Records = append(out.Records, schemas.Outgoing{Topic: schemas.Names, Partition: p.id, Key: user.Key(), Value: record.Encode()})
}

// quarantine hides a user whose id two names have, before any row of the record counts, until the
// user is erased.
func (p *Partition) quarantine(user schemas.UserID, out *stream.Outbox) {
	p.log.Error("ALARM: two names have one user id: nobody is shown either of them until the user is erased; stillhere identity collisions prints both", "user", user)
	p.names.collided[user] = struct{}{}
	p.names.fresh = append(p.names.fresh, user)
	p.machine.Quarantine(user)
	out.Forwards = append(out.Forwards, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: p.id,
		Value: schemas.AppendVisibility(nil, user, schemas.Nobody)})
}

// keepQuarantine makes a hide of the record's show of a user whose id two names have, or had.
func (p *Partition) keepQuarantine() {
	if f := &p.frame; p.names != nil && f.VisibilityUser != 0 && (p.names.isCollided(f.VisibilityUser) || p.names.isAwaited(f.VisibilityUser)) {
		f.Visibility = schemas.Nobody
	}
}

// eraseName makes an erased user nameless, for good. It ends the quarantine when the next name comes.
func (p *Partition) eraseName(user schemas.UserID, out *stream.Outbox) {
	p.names.remove(user)
	if p.names.isCollided(user) || p.names.isAwaited(user) {
		delete(p.names.collided, user)
		p.names.awaited[user] = struct{}{}
		p.machine.Quarantine(user)
		out.Forwards = append(out.Forwards, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: p.id,
			Value: schemas.AppendVisibility(nil, user, schemas.Nobody)})
	}
	out.Records = append(out.Records, schemas.Outgoing{Topic: schemas.Names, Partition: p.id, Key: user.Key()})
}

// overPerRecord bounds how many statuses a record rewrites without the names of users who are gone.
const overPerRecord = 1000

// settleNames writes the statuses of users whose names are new, so that a restart finds the names, and of
// some whose names are not known any more.
func (p *Partition) settleNames(out *stream.Outbox) {
	for _, user := range p.names.fresh {
		if p.names.unsaved(user) || p.names.isCollided(user) {
			p.restate(user, out)
		}
	}
	p.names.fresh = p.names.fresh[:0]
	n := min(len(p.names.over), overPerRecord)
	for _, user := range p.names.over[:n] {
		if _, _, again := p.names.find(user); again == nil {
			p.restate(user, out)
		}
	}
	p.names.over = p.names.over[n:]
}

// restate writes the status of a user again.
func (p *Partition) restate(user schemas.UserID, out *stream.Outbox) {
	p.out.Statuses = p.out.Statuses[:0]
	p.machine.Restate(user, &p.out)
	for i := range p.out.Statuses {
		p.names.name(&p.out.Statuses[i], p.machine.LogTime())
		out.Records = append(out.Records, p.pages.status(p.id, &p.out.Statuses[i]))
	}
}

// adoptName takes the name of a status, or of none, in a restore.
func (p *Partition) adoptName(user schemas.UserID, s *schemas.Status) {
	p.names.remove(user)
	if s != nil && s.Name != (schemas.Name{}) {
		p.names.put(user, s.Name)
		if s.NamedUntil != 0 {
			p.names.leave(user, s.NamedUntil)
		}
	}
	delete(p.names.collided, user)
	delete(p.names.awaited, user)
	switch {
	case s == nil || !s.Collided:
	case s.Name == schemas.Name{}:
		p.names.awaited[user] = struct{}{}
	default:
		p.names.collided[user] = struct{}{}
	}
}

// checkStatusName holds the name of a status to the rules.
func (p *Partition) checkStatusName(s *schemas.Status) error {
	switch users := p.config.Users; {
	case s == nil || s.Name == schemas.Name{}:
		return nil
	case !users.Text():
		return errNamesInIntMode
	case s.Name.Check("name") != nil || !users.Is(s.User, s.Name):
		return idMismatch("name")
	}
	return nil
}

// namesOf are the names that the frame has for users of other partitions.
func (p *Partition) namesOf(beats []schemas.Beat) map[schemas.UserID]schemas.Name {
	if !p.frame.Named() {
		return nil
	}
	found := map[schemas.UserID]schemas.Name{}
	var row schemas.NamedRow
	for names := p.frame.Names(); names.Next(&row); {
		user := p.frame.User(row.Row)
		if slices.ContainsFunc(beats, func(b schemas.Beat) bool { return b.User == user }) {
			found[user] = row.User()
		}
	}
	return found
}
