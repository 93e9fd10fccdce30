package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
)

// tenants are those of named histories; the first is the default tenant.
var tenants = []string{"", "acme", "t", "beta-2"}

// people gives a name to every user of h. The ids of the names have the order of the users' ids, and
// belong to the partition if these do: who is first at an instant stays first.
func people(s *source, h *History) map[schemas.UserID]schemas.Name {
	ids := h.mentioned()
	mine := func(id schemas.UserID) bool { return schemas.PartitionOf(id, h.Partitions) == h.Partition }
	for salt := 0; ; salt++ {
		names := map[schemas.UserID]schemas.Name{}
		var candidates []schemas.UserID
		for i := range 100 {
			name := schemas.Name{Tenant: one(s, tenants...), Text: fmt.Sprintf("user %d.%d of %d", salt, i, h.Start)}
			id := users.ID(name.Tenant, name.Text)
			names[id] = name
			candidates = append(candidates, id)
		}
		slices.Sort(candidates)
		all, found := map[schemas.UserID]schemas.Name{}, true
		for _, id := range ids {
			i := slices.IndexFunc(candidates, func(c schemas.UserID) bool { return mine(c) == mine(id) })
			if found = i >= 0; !found {
				break
			}
			all[id] = names[candidates[i]]
			candidates = candidates[i+1:]
		}
		if found {
			return all
		}
	}
}

// withNames is h with users who have names. Frames say the names early, late, again or never, and
// some have rows or changes of visibility whose ids are not those of their names. The second result
// are the users of h by the ids of their names.
func withNames(h *History, seed uint64) (*History, map[schemas.UserID]schemas.UserID) {
	s := &source{bytes: ofSeed(seed, 1000+16*len(h.Records))}
	names := people(s, h)
	often := one(s, 2, 1, 5, 30)
	original := map[schemas.UserID]schemas.UserID{}
	id := func(user schemas.UserID) schemas.UserID {
		if user == 0 {
			return 0
		}
		named := users.ID(names[user].Tenant, names[user].Text)
		original[named] = user
		return named
	}
	said := func(user schemas.UserID) *schemas.Name {
		if user == 0 || !s.chance(often) {
			return nil
		}
		name := names[user]
		return &name
	}
	stranger := &schemas.Name{Tenant: "acme", Text: "a stranger"}
	text := *h
	text.Text, text.Records = true, nil
	for _, r := range h.Records {
		r.Name = said(r.Hide + r.Show)
		if r.Override != nil {
			o := *r.Override
			r.Name, r.Override = said(o.User), &o
			o.User = id(o.User)
		}
		r.Hide, r.Show, r.Erase = id(r.Hide), id(r.Show), id(r.Erase)
		rows := r.Rows
		r.Rows = nil
		for _, row := range rows {
			if s.chance(12) {
				forged := row
				forged.User, forged.Name, forged.Bye = id(row.User), stranger, s.chance(2)
				r.Rows = append(r.Rows, forged)
			}
			row.Name = said(row.User)
			row.User = id(row.User)
			r.Rows = append(r.Rows, row)
		}
		if r.Garbage && len(original) > 0 && s.chance(2) {
			r.Garbage, r.Hide, r.Name = false, id(anyOf(s, names)), stranger
		}
		text.Records = append(text.Records, r)
	}
	return &text, original
}

// namesakes are pairs of names that have one id under the key of users.
var namesakes = [][2]schemas.Name{
	{{Tenant: "globex", Text: "365650a50ece8463"}, {Tenant: "globex", Text: "2900f707983a2ec5"}},
	{{Tenant: "globex", Text: "1a21c3b87d4ca93b"}, {Tenant: "acme", Text: "0146e575611aec18"}},
}

// withNamesakes is h, of users with names, where one user and rows, changes and erasures of another one with the same id
// take the place of a user. Every row of them has its name: without it the row is of the name that is known.
func withNamesakes(h *History, seed uint64) *History {
	s := &source{bytes: ofSeed(^seed, 1000+16*len(h.Records))}
	pair := one(s, namesakes...)
	id := users.ID(pair[0].Tenant, pair[0].Text)
	var all []schemas.UserID
	for i := range h.Records {
		for _, row := range h.Records[i].Rows {
			if schemas.PartitionOf(row.User, h.Partitions) == schemas.PartitionOf(id, h.Partitions) {
				all = append(all, row.User)
			}
		}
	}
	if len(all) == 0 {
		return h
	}
	user, often := one(s, all...), one(s, 2, 4, 10)
	called := func(is schemas.UserID, name *schemas.Name) (schemas.UserID, *schemas.Name) {
		if is != user {
			return is, name
		}
		if s.chance(often) {
			return id, &pair[1]
		}
		return id, &pair[0]
	}
	other := *h
	other.Records = nil
	for _, r := range h.Records {
		r.Hide, r.Name = called(r.Hide, r.Name)
		r.Show, r.Name = called(r.Show, r.Name)
		r.Erase, r.Name = called(r.Erase, r.Name)
		if r.Override != nil {
			o := *r.Override
			r.Override = &o
			o.User, r.Name = called(o.User, r.Name)
		}
		rows := r.Rows
		r.Rows = nil
		for _, row := range rows {
			row.User, row.Name = called(row.User, row.Name)
			r.Rows = append(r.Rows, row)
		}
		other.Records = append(other.Records, r)
	}
	return &other
}

func TestMachineLeavesOutTheSecondNameOfAnIDAsTheOracleDoes(t *testing.T) {
	t.Parallel()
	left, kept := 0, 0
	for seed := range seeds(t, 1000) {
		text, _ := withNames(fromSeed(seed), seed)
		h := withNamesakes(text, seed)
		compareOn(t, Machine, h)
		// A restart reads rows again in the light of the names in the statuses. It does not know of a name that was
		// forgotten since, so that another one with the same id took its place: see detector/DESIGN.md.
		if l := h.Log(); !forgets(&l) {
			kept++
			compareOn(t, killed(seed).Run, h)
		}
		for reason := range (Runs{}).run(h.Log()).rejected {
			if strings.Contains(reason, "two names have one id") {
				left++
			}
		}
	}
	if left == 0 || kept == 0 {
		t.Errorf("%d second names are left out, and names are kept in %d histories", left, kept)
	}
}

// forgets reports whether l is long enough for a name to be forgotten, ten minutes after its user is gone.
func forgets(l *oracle.Log) bool {
	var newest schemas.Millis
	for _, r := range l.Records {
		newest = max(newest, r.Time)
	}
	return len(l.Records) > 0 && newest-l.Records[0].Time >= schemas.Millis(10*time.Minute/time.Millisecond)
}

func anyOf(s *source, names map[schemas.UserID]schemas.Name) schemas.UserID {
	var ids []schemas.UserID
	for id := range names {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return one(s, ids...)
}

// intMode is a run of h with names, without names and by the users' ids in int mode.
func intMode(impl Impl, original map[schemas.UserID]schemas.UserID) Impl {
	return func(log oracle.Log) []schemas.Transition {
		all := impl(log)
		for i := range all {
			all[i].User, all[i].Name = original[all[i].User], schemas.Name{}
			if all[i].ErasedUntil == textErasedUntil {
				all[i].ErasedUntil = erasedUntil
			}
		}
		return all
	}
}

// withoutStrangers is h without the rows that strangers send in text, which is h with names: those without a name beside
// a row whose name is that of a stranger.
func withoutStrangers(h, text *History) *History {
	strange := func(r Row) bool { return r.Name != nil && !users.Is(r.User, *r.Name) }
	other := *h
	other.Records = slices.Clone(h.Records)
	for i := range text.Records {
		strangers := map[schemas.UserID]bool{}
		for _, row := range text.Records[i].Rows {
			strangers[row.User] = strangers[row.User] || strange(row)
		}
		named := slices.DeleteFunc(slices.Clone(text.Records[i].Rows), strange) // the rows of h
		other.Records[i].Rows = nil
		for j, row := range h.Records[i].Rows {
			if named[j].Name != nil || !strangers[named[j].User] {
				other.Records[i].Rows = append(other.Records[i].Rows, row)
			}
		}
	}
	return &other
}

func TestUsersWithNamesChangeAsThoseWithoutNamesDo(t *testing.T) {
	t.Parallel()
	named := 0
	for seed := range seeds(t, 1000) {
		h := unbounded(seed) // which users are left for the next record depends on their ids,
		h.unpaced()          // and when they leave a cohort
		text, original := withNames(h, seed)
		h = withoutStrangers(h, text)
		want := Impl(oracle.Run).of(h)
		for _, impl := range []Impl{Machine, killed(seed).Run} {
			if got := intMode(impl, original).of(text); !slices.Equal(want, got) {
				t.Fatalf("seed %d: %s\nof\n%s\nand\n%s", seed, Difference(h, want, got), h, text)
			}
		}
		for _, tr := range Impl(Machine).of(text) {
			if tr.Name != (schemas.Name{}) {
				named++
			}
		}
	}
	if named == 0 {
		t.Error("no transition has a name")
	}
}

// Consumers that know a user by the status or by the topic of names must agree with those that read
// transitions.
func TestEveryNamedStatusHasTheNameInTheTopicOfNames(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 300) {
		h, _ := withNames(fromSeed(seed), seed)
		d := killed(seed).run(h.Log())
		names := map[schemas.UserID]schemas.Name{}
		for _, r := range d.names {
			user, err := schemas.UserOfKey(r.Key)
			check(err)
			delete(names, user)
			if r.Value != nil {
				n, err := schemas.DecodeUserName(r.Value)
				check(err)
				names[user] = n.Name
			}
		}
		for i := range d.statuses {
			if value := d.statuses[i].Value; value != nil && !schemas.IsRulesKey(d.statuses[i].Key) && i > len(d.statuses)-20 {
				s, err := schemas.DecodeStatus(value)
				check(err)
				if s.Name != (schemas.Name{}) && !users.Is(s.User, s.Name) {
					t.Fatalf("seed %d: the status of user %d has the name %v", seed, s.User, s.Name)
				}
			}
		}
		for user, name := range d.newestNames() {
			if names[user] != name {
				t.Fatalf("seed %d: user %d is %v by the status and %v by the topic of names", seed, user, name, names[user])
			}
		}
	}
}

// A record with the name of another user is rejected, and its other rows count, so that a restart may apply it again.
func TestEveryRecordIsRejectedOnceWhereverTheMachineIsKilled(t *testing.T) {
	t.Parallel()
	all := 0
	for seed := range seeds(t, 600) {
		h, _ := withNames(fromSeed(seed), seed)
		for record, n := range killed(seed).run(h.Log()).rejected {
			if all++; n != 1 {
				t.Fatalf("seed %d: the record at offset %s, is rejected %d times", seed, record, n)
			}
		}
	}
	if all == 0 {
		t.Error("no record is rejected")
	}
}

// newestNames are the names in the newest statuses.
func (d *run) newestNames() map[schemas.UserID]schemas.Name {
	names := map[schemas.UserID]schemas.Name{}
	for i := range d.statuses {
		if schemas.IsRulesKey(d.statuses[i].Key) {
			continue
		}
		user, err := schemas.UserOfKey(d.statuses[i].Key)
		check(err)
		delete(names, user)
		if value := d.statuses[i].Value; value != nil {
			s, err := schemas.DecodeStatus(value)
			check(err)
			if s.Name != (schemas.Name{}) {
				names[user] = s.Name
			}
		}
	}
	return names
}

// unpaced makes all devices of a cohort leave without a time of their own.
func (h *History) unpaced() {
	policies := []*schemas.Policy{&h.Settings}
	for i := range h.Records {
		if p := h.Records[i].Policy; p != nil {
			policies = append(policies, p)
		}
	}
	for _, p := range policies {
		p.CohortRate, p.CohortTotalRate = 1_000_000, 1_000_000_000
	}
}
