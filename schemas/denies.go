package schemas

import (
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

const (
	// MaxDenies bounds the viewers in one Denies.
	MaxDenies = 1000
	// MaxDenied bounds the viewers whom one user denies. The detector applies no Denies that would exceed it.
	MaxDenied = 10_000
)

// Denies changes the list of the viewers to whom a user looks hidden: a Denies message in its canonical form, so that
// transitions can be compared. Empty: nothing changes.
type Denies string

// Denial is an entry of the list.
type Denial struct {
	Viewer  UserID
	At      Millis  // since when
	Version Version // of the transition that added the viewer
}

// NewDenies adds and removes viewers of the list of the user, each given in any order and number. Errors are
// *FieldErrors whose field begins with field.
func NewDenies(field string, user UserID, add, remove []UserID) (Denies, error) {
	d := canonicalDenies(&pb.Denies{Add: ascending(add), Remove: ascending(remove)})
	return d, d.check(field, user)
}

func canonicalDenies(m *pb.Denies) Denies { return Denies(encode(m)) }

func ascending(users []UserID) []int64 {
	all := make([]int64, len(users))
	for i, user := range users {
		all[i] = int64(user)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Changes are the viewers who are added and those who are removed, ascending. Of an empty one it does not allocate.
func (d Denies) Changes() (add, remove []UserID) {
	if d == "" {
		return nil, nil
	}
	var m pb.Denies
	if err := proto.Unmarshal([]byte(d), &m); err != nil {
		panic(err) // it was made from such a message
	}
	return usersOf(m.Add), usersOf(m.Remove)
}

func usersOf(numbers []int64) []UserID {
	all := make([]UserID, len(numbers))
	for i, n := range numbers {
		all[i] = UserID(n)
	}
	return all
}

// check holds d to the rules of frame.proto.
func (d Denies) check(field string, user UserID) error {
	add, remove := d.Changes()
	if n := len(add) + len(remove); n < 1 || n > MaxDenies {
		return Invalid(field, "must add and remove 1 to "+strconv.Itoa(MaxDenies)+" viewers, not "+strconv.Itoa(n))
	}
	for _, part := range [...]struct {
		name    string
		viewers []UserID
	}{{".add", add}, {".remove", remove}} {
		for i, viewer := range part.viewers {
			switch {
			case viewer < 1:
				return invalidUser(field + part.name)
			case viewer == user:
				return Invalid(field+part.name, "must not name the user")
			case i > 0 && viewer <= part.viewers[i-1]:
				return Invalid(field+part.name, "must ascend")
			}
		}
	}
	for _, viewer := range add {
		if _, both := slices.BinarySearch(remove, viewer); both {
			return Invalid(field+".remove", "must not name a viewer who is added")
		}
	}
	return nil
}

// Against is what d changes in a list, which ascends; partial: there may be more than it has.
func (d Denies) Against(list []UserID, partial bool) Denies {
	add, remove := d.Changes()
	in := func(viewer UserID) bool { _, found := slices.BinarySearch(list, viewer); return found }
	add = slices.DeleteFunc(add, in)
	if !partial {
		remove = slices.DeleteFunc(remove, func(viewer UserID) bool { return !in(viewer) })
	}
	return canonicalDenies(&pb.Denies{Add: ascending(add), Remove: ascending(remove)})
}

// Apply returns the list after d: ascending, as list is, which stays as it is.
func (d Denies) Apply(list []UserID) []UserID {
	add, remove := d.Changes()
	after := slices.DeleteFunc(slices.Clone(list), func(viewer UserID) bool {
		_, removed := slices.BinarySearch(remove, viewer)
		return removed
	})
	after = append(after, add...)
	slices.Sort(after)
	return slices.Compact(after)
}
