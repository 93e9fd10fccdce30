package detector

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
)

var named = identity.Named(identity.Key{1, 2, 3})

// namedLog is the log of a partition in text mode.
func namedLog(t *testing.T, partition, partitions int32) *log {
	l := newLog(t, partition, partitions)
	l.users = named
	l.restore(-1, "")
	return l
}

func nameIn(partition, partitions int32, tenant string) schemas.Name {
	for i := 0; ; i++ {
		n := schemas.Name{Tenant: tenant, Text: fmt.Sprintf("user %d", i)}
		if schemas.PartitionOf(named.ID(n.Tenant, n.Text), partitions) == partition {
			return n
		}
	}
}

func namedBeat(n schemas.Name, device schemas.DeviceID) []byte {
	return schemas.AppendNamedRow(beatOf(n, device), 0, n)
}

func beatOf(n schemas.Name, device schemas.DeviceID) []byte {
	return schemas.AppendFrame(nil, schemas.FrameHead{},
		[]schemas.Beat{{User: named.ID(n.Tenant, n.Text), Device: device, Kind: schemas.Web}})
}

// written are the names in the records that l wrote last: of transitions, statuses, names.
func (l *log) written() (transitions, statuses, names []schemas.Name) {
	for _, o := range l.out.Records {
		switch o.Topic {
		case schemas.Transitions:
			tr, _ := schemas.DecodeTransition(o.Value)
			transitions = append(transitions, tr.Name)
		case schemas.Statuses:
			if o.Value != nil && !schemas.IsRulesKey(o.Key) {
				s, _ := schemas.DecodeStatus(o.Value)
				statuses = append(statuses, s.Name)
			}
		case schemas.Names:
			if n, err := schemas.DecodeUserName(o.Value); err == nil {
				names = append(names, n.Name)
			} else {
				names = append(names, schemas.Name{})
			}
		}
	}
	return transitions, statuses, names
}

func (l *log) expect(transitions, statuses, names []schemas.Name) {
	l.t.Helper()
	gotT, gotS, gotN := l.written()
	if !slices.Equal(gotT, transitions) || !slices.Equal(gotS, statuses) || !slices.Equal(gotN, names) {
		l.t.Errorf("written with names %v, %v, %v; want %v, %v, %v", gotT, gotS, gotN, transitions, statuses, names)
	}
}

func TestANameIsWrittenWithEveryChangeAndOnceToTheTopicOfNames(t *testing.T) {
	l := namedLog(t, 0, 1)
	ann := schemas.Name{Tenant: "acme", Text: "ann"}
	is := []schemas.Name{ann}
	l.write(start, namedBeat(ann, 1))
	l.expect(is, is, is)
	l.write(start+1000, namedBeat(ann, 1))
	l.expect(nil, nil, nil)
	l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
	l.write(start+60_000, schemas.AppendTick(nil)) // presence time advances by 5 s
	for now := start + 65_000; len(l.transitions()) == 0; now += 5000 {
		l.write(now, schemas.AppendTick(nil))
	}
	l.expect(is, is, nil)
}

func TestAUserWithoutNameIsPresentAndTheNameThatComesLaterSurvivesARestart(t *testing.T) {
	l := namedLog(t, 0, 1)
	bob := schemas.Name{Text: "bob"}
	none, is := []schemas.Name{{}}, []schemas.Name{bob}
	l.write(start, beatOf(bob, 1))
	l.expect(none, none, nil)
	l.write(start+1000, namedBeat(bob, 1))
	l.expect(nil, is, is)
	l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
	l.write(start+2000, schemas.AppendVisibility(nil, named.ID("", "bob"), schemas.Nobody))
	l.expect(is, is, nil)
}

// One ingest process writes the name and later beats without it, another one the bye between.
func TestAUserWhoSaidByeElsewhereComesBackUnderItsName(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		l := namedLog(t, 0, 1)
		ann := schemas.Name{Tenant: "acme", Text: "ann"}
		at := start
		write := func(after schemas.Millis, value []byte) (named []schemas.Name) {
			t.Helper()
			at += after
			l.write(at, value)
			named, _, _ = l.written()
			if restarts {
				l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
			}
			return named
		}
		says := func(after schemas.Millis, bye bool, want schemas.Name) {
			t.Helper()
			value := schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: named.ID("acme", "ann"), Device: 1, Kind: schemas.Web, Bye: bye}})
			if got := write(after, value); !slices.Equal(got, []schemas.Name{want}) {
				t.Errorf("the change is published under %v, want %v", got, want)
			}
		}
		write(0, namedBeat(ann, 1))
		says(1000, true, ann)
		for range 3 {
			for range 3 { // until nothing is known of the user any more
				write(4000, schemas.AppendTick(nil))
			}
			says(nameKept-13_000, false, ann)
			says(1000, true, ann)
		}
		for range 3 {
			write(4000, schemas.AppendTick(nil))
		}
		says(nameKept, false, schemas.Name{}) // writers repeat names more often
		says(1000, true, schemas.Name{})
		for range 3 {
			write(4000, schemas.AppendTick(nil))
		}
		if newest := l.statuses[len(l.statuses)-1]; newest.Value != nil {
			t.Error("a status is left of a user who is gone and has no name")
		}
	}
}

// A name that came with a heartbeat too late to count is that of those that follow.
func TestANameIsKnownThatALateHeartbeatBrought(t *testing.T) {
	l := namedLog(t, 0, 1)
	ann := schemas.Name{Tenant: "acme", Text: "ann"}
	late := schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: named.ID("acme", "ann"), Device: 1, Kind: schemas.Web, Age: 3600_000}})
	l.write(start, schemas.AppendNamedRow(late, 0, ann))
	l.expect(nil, []schemas.Name{ann}, []schemas.Name{ann})
	l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
	l.write(start+1000, beatOf(ann, 1))
	l.expect([]schemas.Name{ann}, []schemas.Name{ann}, nil)
}

func TestARowWhoseIdIsNotThatOfItsNameIsLeftOutAndOthersCount(t *testing.T) {
	l := namedLog(t, 0, 1)
	ann, bob := schemas.Name{Text: "ann"}, schemas.Name{Text: "bob"}
	value := schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{
		{User: 42, Device: 1, Kind: schemas.Web}, {User: named.ID("", "bob"), Device: 1, Kind: schemas.Web}})
	value = schemas.AppendNamedRow(schemas.AppendNamedRow(value, 0, ann), 1, bob)
	is := []schemas.Name{bob}
	l.write(start, value)
	l.expect(is, is, is)
	if len(l.out.Rejected) != 1 || !strings.Contains(l.out.Rejected[0].Reason.Error(), "named[0]") {
		t.Errorf("rejected %v", l.out.Rejected)
	}
	l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
	if n := l.p.machine.Users(); n != 1 {
		t.Errorf("%d users after a restart", n)
	}
	l.write(start+1, schemas.AppendNamedVisibility(nil, 42, schemas.Nobody, ann))
	l.expect(nil, nil, nil)
	if len(l.out.Rejected) != 1 {
		t.Error("a change of visibility under another user's name counts")
	}
}

func TestNamesAreRefusedInIntMode(t *testing.T) {
	l := freshLog(t, 0, 1)
	l.write(start, namedBeat(schemas.Name{Text: "ann"}, 1))
	if len(l.transitions()) != 0 || len(l.out.Rejected) != 1 || !errors.Is(l.out.Rejected[0].Reason, errNamesInIntMode) {
		t.Errorf("wrote %v, rejected %v", l.out.Records, l.out.Rejected)
	}
}

func TestForwardedRowsKeepTheirNames(t *testing.T) {
	l := namedLog(t, 0, 2)
	ann := nameIn(1, 2, "acme")
	for _, value := range [][]byte{namedBeat(ann, 1),
		schemas.AppendNamedVisibility(nil, named.ID(ann.Tenant, ann.Text), schemas.Nobody, ann)} {
		l.write(start, value)
		l.expect(nil, nil, nil)
		if len(l.out.Forwards) != 1 {
			t.Fatalf("%d forwards", len(l.out.Forwards))
		}
		to := namedLog(t, 1, 2)
		to.write(start, l.out.Forwards[0].Value)
		is := []schemas.Name{ann}
		to.expect(is, is, is)
	}
}

func TestAnErasureRemovesTheName(t *testing.T) {
	l := namedLog(t, 0, 1)
	ann := schemas.Name{Text: "ann"}
	id := named.ID("", "ann")
	is, none := []schemas.Name{ann}, []schemas.Name{{}}
	l.write(start, namedBeat(ann, 1))
	l.write(start+1, schemas.AppendErasure(nil, id, schemas.Name{}, start+1_000_000, start+500_000, false))
	l.expect(is, none, none) // the status names the erasure; a tombstone is without name
	l.write(start+2, beatOf(ann, 1))
	l.expect(none, none, nil)
}

func TestTheTableOfNamesIsAMap(t *testing.T) {
	table, want := newNames(named), map[schemas.UserID]schemas.Name{}
	rng := rand.New(rand.NewPCG(1, 2))
	const users = 4_000
	for range 8 * users {
		name := schemas.Name{Tenant: []string{"", "acme"}[rng.IntN(2)], Text: textOf(rng.IntN(users))}
		id := named.ID(name.Tenant, name.Text)
		if _, known := want[id]; known {
			table.remove(id)
			delete(want, id)
		} else {
			table.put(id, name)
			want[id] = name
		}
	}
	for tenant := range 2 {
		for i := range users {
			id := named.ID([]string{"", "acme"}[tenant], textOf(i))
			if got := table.of(id); got != want[id] {
				t.Fatalf("the name of %d is %q, want %q", id, got, want[id])
			}
			if of, known := table.tenantOf(id); of != want[id].Tenant || known != (want[id].Text != "") {
				t.Fatalf("the tenant of %d is %q (%t), want %q", id, of, known, want[id].Tenant)
			}
		}
	}
	for id := range want {
		table.remove(id)
	}
	if got := table.bytes(); got != 8*nameShards {
		t.Errorf("an empty table takes %d bytes", got)
	}
}

// textOf are texts of every length, of which a third are UUIDs or nearly.
func textOf(i int) string {
	uuid := fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", i*0x9e3779b1&0xffffffff, i&0xffff, i>>4&0xfff, i&0xfff, i)
	switch i % 6 {
	case 0:
		return uuid
	case 1:
		return []string{strings.ToUpper(uuid), uuid[:35] + "g", uuid[:8] + "_" + uuid[9:], strings.ReplaceAll(uuid, "-", "")}[i/6%4] + fmt.Sprint(i)
	}
	return strings.Repeat("x", i%(schemas.MaxName-4)) + fmt.Sprintf("%04x", i)
}

func FuzzAnEntryIsItsName(f *testing.F) {
	for i := range 12 {
		f.Add("acme", textOf(i))
	}
	f.Add("", "6f9619ff-8b86-d011-b42d-00c04fc964ff")
	f.Add("acme", "6F9619FF-8B86-d011-b42d-00c04fc964ff")
	f.Add(strings.Repeat("t", schemas.MaxTenant), strings.Repeat("x", schemas.MaxName))
	f.Fuzz(func(t *testing.T, tenant, text string) {
		name := schemas.Name{Tenant: tenant, Text: text}
		if name.Check("name") != nil {
			return
		}
		one := appendEntry(nil, name)
		e := nameEntry(append(slices.Clone(one), 1, 2, 3)).sized()
		if len(e) != len(one) {
			t.Errorf("%q: the size is wrong: %d bytes of %d", name, len(e), len(one))
		}
		table := newNames(named)
		if e.name() != name || !e.is(name) || e.is(schemas.Name{Tenant: tenant, Text: text + "x"}) || e.tenant() != tenant || table.idOf(e) != named.ID(tenant, text) {
			t.Errorf("%q is read back as %q", name, e.name())
		}
	})
}

func TestANameTakesAtMostEightBytesMoreThanItsTextAndAUUIDFewerThanItsText(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("memory of millions of names, on one goroutine: a minute and a half under the race detector")
	}
	for _, users := range []int{700_000, 1_000_000} {
		for kind, format := range map[string]string{"text": "user-%012d", "UUID": "00000000-0000-4000-a000-%012x"} {
			table, texts := newNames(named), 0
			for i := range users {
				name := schemas.Name{Text: fmt.Sprintf(format, i)}
				texts += len(name.Text)
				table.put(named.ID("", name.Text), name)
			}
			over := float64(table.bytes()-texts) / float64(users)
			t.Logf("%d %ss: %.1f bytes a user besides the name", users, kind, over)
			if most := map[string]float64{"text": 8, "UUID": -12}[kind]; over > most {
				t.Errorf("%d %ss: %.1f bytes a user besides the name, must be at most %.0f", users, kind, over, most)
			}
		}
	}
}

func TestKnownNamesAreLearntWithoutAnAllocation(t *testing.T) {
	table := newNames(named)
	for _, text := range []string{"ann", "6f9619ff-8b86-d011-b42d-00c04fc964ff"} {
		name := schemas.Name{Tenant: "acme", Text: text}
		id := named.ID(name.Tenant, name.Text)
		table.put(id, name)
		if n := testing.AllocsPerRun(100, func() {
			if known := table.learn(id, name); known == nil || !known.is(name) {
				t.Error("the name is not known")
			}
		}); n != 0 {
			t.Errorf("%q: %.0f allocations", name, n)
		}
	}
}
