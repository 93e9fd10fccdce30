package detector

import (
	"errors"
	"strconv"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// errNamesInIntMode is why a record with names goes to the dead-letter topic of a pipeline in int
// mode: its ids are hashes of names.
var errNamesInIntMode = &schemas.FieldError{Code: "names_in_int_mode", Field: "named",
	Reason: "this pipeline has --ids int: its users have no names; does the producer belong to another pipeline?"}

// decode decodes a record into frame, without the rows whose name is not that of their user, and takes the
// names of the other rows. It returns why these rows, or all of the record unless usable, go to the dead-letter
// topic. It depends on nothing but the record, the log time, the names known before it, which tenants have policies,
// and which frames counted before, so a restore leaves out the same. at is when the record was appended.
func (p *Partition) decode(value []byte, at schemas.Millis) (usable bool, err error) {
	if err := p.read(value, at); err != nil {
		return false, err
	}
	if err := p.checker.Count(&p.frame, at); err != nil {
		return false, &refusal{err}
	}
	if p.names == nil {
		return true, nil
	}
	p.names.forget(max(at, p.machine.LogTime()))
	if user, name, field := p.called(); name != (schemas.Name{}) && !p.isCalled(user, name, p.frame.ErasedUser == 0) {
		return false, nameMismatch(field + ".name")
	}
	return true, p.leaveOutMismatches()
}

// read decodes a record into frame. An error says why all of it goes to the dead-letter topic, whatever names are known.
func (p *Partition) read(value []byte, at schemas.Millis) error {
	f := &p.frame
	if err := f.Decode(value); err != nil {
		return err
	}
	if err := p.checker.Check(f, at); err != nil {
		return &refusal{err}
	}
	if err := f.CheckEpoch(max(at, p.machine.LogTime())); err != nil {
		return err
	}
	if !f.Named() && !f.Control() {
		return nil
	}
	user, name, field := p.called()
	switch called, users := name != (schemas.Name{}), &p.config.Users; {
	case !users.Text() && (f.Named() || called || f.TenantPolicy != nil):
		return errNamesInIntMode
	case f.TenantPolicy != nil && !p.machine.TenantFits(f.TenantPolicy.Tenant):
		return errTooManyTenants
	case called && !users.Is(user, name):
		return idMismatch(field + ".user_id")
	}
	return nil
}

// called is whom the frame shows, hides or erases under a name, and the field that says so.
func (p *Partition) called() (schemas.UserID, schemas.Name, string) {
	if f := &p.frame; f.ErasedUser != 0 {
		return f.ErasedUser, f.ErasedName, "erasure"
	}
	return p.frame.VisibilityUser, p.frame.VisibilityName, "visibility"
}

// The codes of errors about names that are not those of their users.
const (
	codeIDMismatch   = "id_mismatch"
	codeNameMismatch = "name_mismatch"
)

func idMismatch(field string) error {
	return &schemas.FieldError{Code: codeIDMismatch, Field: field,
		Reason: "is not the id of the name under the identity key of the pipeline; does the producer have another key?"}
}

// nameMismatch is why a row counts for nothing whose user is known under another name.
func nameMismatch(field string) error {
	return &schemas.FieldError{Code: codeNameMismatch, Field: field,
		Reason: "is not the name under which the user is known: two names have one id, and the first one keeps it"}
}

// alarm counts a record with a name that is not that of its user. Of two names with one id it says so once a minute;
// a row whose id is not that of its name is a dead letter like others.
func (p *Partition) alarm(r *schemas.Record, err error) {
	var why *schemas.FieldError
	if !errors.As(err, &why) || why.Code != codeIDMismatch && why.Code != codeNameMismatch {
		return
	}
	p.config.Metrics.Mismatched.Inc()
	if now := p.config.Now(); why.Code == codeNameMismatch && now.Sub(p.alarmed) >= warnEvery {
		p.alarmed = now
		p.log.Error("ALARM: a name is not that of its user id: the row is left out, and the user stays as it is", "offset", r.Offset, "error", err)
	}
}

// isCalled reports whether a user is not known under another name than this one, which it learns if it is the first.
// Whoever belongs to another partition is not known.
func (p *Partition) isCalled(user schemas.UserID, name schemas.Name, learns bool) bool {
	if schemas.PartitionOf(user, p.router.partitions) != p.id {
		return true // is forwarded
	}
	var known nameEntry
	if learns {
		known = p.names.learn(user, name)
	} else {
		_, _, known = p.names.find(user)
	}
	return known == nil || known.is(name)
}

// leaveOutMismatches removes rows from the frame whose user_id is not the id of their name, or whose user is known
// under another one. Rows of the same user without a name go with them: a frame names each user once.
func (p *Partition) leaveOutMismatches() (why error) {
	var left map[int]bool
	var users map[schemas.UserID]bool // of these rows
	var row schemas.NamedRow
	for names, i := p.frame.Names(), 0; names.Next(&row); i++ {
		user, mismatch := p.frame.User(row.Row), nameMismatch
		switch {
		case p.names.has(user, row.User()):
			continue
		case !p.config.Users.Is(user, row.User()):
			mismatch = idMismatch
		case p.isCalled(user, row.User(), true):
			continue
		}
		if left == nil {
			left, users, why = map[int]bool{}, map[schemas.UserID]bool{}, mismatch("named["+strconv.Itoa(i)+"]")
		}
		left[row.Row], users[user] = true, true
	}
	if why == nil {
		return nil
	}
	named := map[int]bool{}
	for names := p.frame.Names(); names.Next(&row); {
		named[row.Row] = true
	}
	f := &p.frame
	head := schemas.FrameHead{Gateway: schemas.GatewayID(f.Gateway), GatewayEpoch: f.GatewayEpoch, Sequence: f.Sequence,
		Draining: f.Draining, Begins: f.Begins, Ends: f.Ends, Forwarded: f.Forwarded, ForwardedAt: f.ForwardedAt}
	var beats []schemas.Beat
	to := make([]int, f.Rows()) // where rows go
	rows := f.Beats()
	var beat schemas.Beat
	for i := 0; rows.Next(&beat); i++ {
		to[i] = len(beats)
		if left[i] = left[i] || users[beat.User] && !named[i]; !left[i] {
			beats = append(beats, beat)
		}
	}
	value := schemas.AppendFrame(nil, head, beats)
	for names := f.Names(); names.Next(&row); {
		if !left[row.Row] {
			value = schemas.AppendNamedRow(value, to[row.Row], row.User())
		}
	}
	if err := f.Decode(value); err != nil {
		return err
	}
	return why
}

// takeNames tells the machine the tenants of the users whom the frame names, and writes the names that are new to the
// topic of names.
func (p *Partition) takeNames(out *stream.Outbox) {
	var row schemas.NamedRow
	for names := p.frame.Names(); names.Next(&row); {
		p.tellTenant(p.frame.User(row.Row), row.User().Tenant)
	}
	if p.frame.VisibilityName != (schemas.Name{}) {
		p.tellTenant(p.frame.VisibilityUser, p.frame.VisibilityName.Tenant)
	}
	for _, f := range p.names.fresh {
		if !f.first {
			continue
		}
		name := p.names.of(f.user)
		p.tenants.add(name.Tenant, p.machine.CountedAs(f.user), 1)
		out.Records = append(out.Records, schemas.Outgoing{Topic: schemas.Names, Partition: p.id, Key: f.user.Key(),
			Value: schemas.UserName{User: f.user, Name: name}.Encode()})
	}
}

func (p *Partition) tellTenant(user schemas.UserID, tenant string) {
	if schemas.PartitionOf(user, p.router.partitions) == p.id { // others are forwarded
		p.machine.Named(user, tenant)
	}
}

// eraseName makes an erased user nameless, for good.
func (p *Partition) eraseName(user schemas.UserID, out *stream.Outbox) {
	p.names.remove(user)
	out.Records = append(out.Records, schemas.Outgoing{Topic: schemas.Names, Partition: p.id, Key: user.Key()})
}

// overPerRecord bounds how many statuses a record rewrites without the names of users who are gone.
const overPerRecord = 1000

// settleNames writes the statuses of users whose names are new, and of some whose names are not known any more.
func (p *Partition) settleNames(out *stream.Outbox) {
	for _, f := range p.names.fresh {
		if p.names.unsaved[f.user] {
			p.restate(f.user, out)
		}
	}
	p.names.fresh = p.names.fresh[:0]
	n := min(len(p.names.over), overPerRecord)
	over := p.names.over[:n]
	p.names.over = p.names.over[n:]
	for _, user := range over {
		if _, _, again := p.names.find(user); again == nil {
			p.restate(user, out)
		}
	}
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

// adoptName takes the name of a status, or of none, in a restore. Statuses of a user come in their order.
func (p *Partition) adoptName(user schemas.UserID, s *schemas.Status) {
	p.names.remove(user)
	if s != nil && s.Name != (schemas.Name{}) {
		p.names.put(user, s.Name)
		if s.NamedUntil != 0 {
			p.names.leave(user, s.NamedUntil)
		}
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
