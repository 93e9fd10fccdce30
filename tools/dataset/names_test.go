package dataset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/sink"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

var users = identity.Named(identity.Key{1})

// named is the record of a name.
func named(tenant, text string) schemas.UserName {
	return schemas.UserName{User: users.ID(tenant, text), Name: schemas.Name{Tenant: tenant, Text: text}}
}

// topic is presence.names in memory, with two partitions.
type topic [2][]schemas.Record

func (t *topic) write(n schemas.UserName) {
	p := schemas.PartitionOf(n.User, 2)
	r := schemas.Record{Partition: p, Offset: int64(len(t[p])), Key: n.User.Key()}
	if n.Name.Text != "" {
		r.Value = n.Encode()
	}
	t[p] = append(t[p], r)
}

// stored are names in a store.
type stored struct {
	known map[schemas.UserID]schemas.UserName
	asked int
}

func (s *stored) Names(_ context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.UserName, error) {
	found := map[schemas.UserID]schemas.UserName{}
	for _, id := range ids {
		s.asked++
		if n, known := s.known[id]; known {
			found[id] = n
		}
	}
	return found, nil
}

func namesOf(t *topic, from StoredNames) (n *Names, reads *int) {
	reads = new(int)
	return &Names{
		store: from, decode: sink.DecodeName(users), looking: make(chan struct{}, 1), tables: map[int32]*nameTable{},
		count:  func(context.Context) (int32, error) { return 2, nil },
		bounds: func(_ context.Context, p int32) (int64, int64, error) { return 0, int64(len(t[p])), nil },
		read: func(_ context.Context, p int32, from, to int64, each func(*schemas.Record) error) error {
			*reads++
			for i := from; i < to; i++ {
				if err := each(&t[p][i]); err != nil {
					return err
				}
			}
			return nil
		},
	}, reads
}

// ask asks for the users of names.
func ask(t *testing.T, n *Names, of ...schemas.UserName) map[schemas.UserID]schemas.UserName {
	t.Helper()
	var ids []schemas.UserID
	for _, name := range of {
		ids = append(ids, name.User)
	}
	found := must.Get(n.Names(t.Context(), ids))(t)
	return found
}

func TestNamesComeFromTheStoreAndWhereItHasNoneFromTheTopic(t *testing.T) {
	t.Parallel()
	ann, bob, eve := named("acme", "ann"), named("", "bob"), named("", "eve")
	log := &topic{}
	log.write(bob)
	log.write(ann)
	from := &stored{known: map[schemas.UserID]schemas.UserName{ann.User: ann}}
	n, reads := namesOf(log, from)
	if found := ask(t, n, ann); found[ann.User] != ann || *reads != 0 {
		t.Errorf("%+v, after %d reads of the topic", found, *reads)
	}
	if found := ask(t, n, ann, bob, eve); found[ann.User] != ann || found[bob.User] != bob || len(found) != 2 {
		t.Errorf("%+v", found)
	}
	before := *reads
	if ask(t, n, bob, eve); *reads != before {
		t.Error("the topic was read again without a refresh")
	}
	log.write(eve)
	for p := range int32(2) {
		must.Do(t, n.Refresh(t.Context(), p))
	}
	asked := from.asked
	if found := ask(t, n, ann, bob, eve); len(found) != 3 || from.asked != asked {
		t.Errorf("%+v, asked the store for %d", found, from.asked-asked)
	}
}

func TestANameThatIsNotOfItsIDIsNotTaken(t *testing.T) {
	t.Parallel()
	log := &topic{}
	log.write(schemas.UserName{User: named("", "ann").User, Name: schemas.Name{Text: "eve"}})
	n, _ := namesOf(log, nil)
	if found := ask(t, n, named("", "ann")); len(found) != 0 {
		t.Errorf("%+v", found)
	}
}

func TestAReadThatFailedIsRepeated(t *testing.T) {
	t.Parallel()
	ann := named("acme", "ann")
	log := &topic{}
	log.write(ann)
	log.write(schemas.UserName{User: ann.User}) // erased
	log.write(ann)
	n, _ := namesOf(log, nil)
	read := n.read
	n.read = func(ctx context.Context, p int32, from, to int64, each func(*schemas.Record) error) error {
		n.read = read
		return errors.Join(read(ctx, p, from, to-1, each), errors.New("away"))
	}
	if _, err := n.Names(t.Context(), []schemas.UserID{ann.User}); err == nil || !strings.Contains(err.Error(), "away") {
		t.Errorf("error %v", err)
	}
	if found := ask(t, n, ann); found[ann.User] != ann {
		t.Errorf("%+v", found)
	}
}

func TestATableOfNamesIsWhatTheStoresKeep(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var records []schemas.UserName
		table := newNameTable()
		for range rapid.IntRange(0, 60).Draw(rt, "records") {
			r := schemas.UserName{User: schemas.UserID(rapid.IntRange(1, 5).Draw(rt, "user"))}
			if rapid.IntRange(0, 4).Draw(rt, "kind") > 0 {
				r.Name = schemas.Name{Tenant: rapid.SampledFrom([]string{"", "acme", "zeta"}).Draw(rt, "tenant"),
					Text: strings.Repeat("n", rapid.SampledFrom([]int{1, 1, 1, 2, schemas.MaxName}).Draw(rt, "length"))}
			}
			records = append(records, r)
			table.put(r)
		}
		want := map[schemas.UserID]schemas.UserName{}
		known, _ := store.FoldNames(records)
		for _, n := range known {
			want[n.User] = n
		}
		got := map[schemas.UserID]schemas.UserName{}
		for id := range schemas.UserID(9) {
			if n, known := table.find(id); known {
				got[id] = n
			}
		}
		if !maps.Equal(got, want) {
			rt.Fatalf("%v, want %v", got, want)
		}
	})
}

func TestATableOfNamesTakesLittleMemory(t *testing.T) {
	const count = 200_000
	table := newNameTable()
	for i := range count {
		n := named("acme", fmt.Sprintf("6f9619ff-8b86-d011-b42d-%012d", i))
		table.put(n)
	}
	if len(table.at) != count || cap(table.entries) > 2*count*(36+5) {
		t.Errorf("%d names in %d bytes", len(table.at), cap(table.entries))
	}
}

// rebuilt is a store whose names are rebuilt. meanwhile is called once, before the first names are written.
type rebuilt struct {
	records   []schemas.UserName
	meanwhile func()
}

func (r *rebuilt) WriteNames(_ context.Context, records []schemas.UserName) error {
	if r.meanwhile != nil {
		r.meanwhile()
		r.meanwhile = nil
	}
	r.records = append(r.records, records...)
	return nil
}

func TestACopyOfTheNamesHasWhatCameMeanwhile(t *testing.T) {
	t.Parallel()
	log := &topic{}
	var all []schemas.UserName
	for i := range copied + 5 {
		n := named("acme", fmt.Sprint(i))
		all = append(all, n)
		log.write(n)
	}
	n, _ := namesOf(log, nil)
	to := &rebuilt{meanwhile: func() {
		log.write(schemas.UserName{User: all[0].User}) // erased
	}}
	records, err := n.Copy(t.Context(), to)
	if err != nil || records != int64(len(all)+1) {
		t.Fatalf("%d records, %v", records, err)
	}
	known, erased := store.FoldNames(to.records)
	if len(known) != len(all)-1 || len(erased) != 1 || erased[0] != all[0].User {
		t.Errorf("%d names, erased %v", len(known), erased)
	}
}
