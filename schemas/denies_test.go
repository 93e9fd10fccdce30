package schemas

import (
	"slices"
	"testing"
)

func TestAListOfDeniedViewersIsTheSumOfItsChanges(t *testing.T) {
	t.Parallel()
	var list []UserID
	for _, c := range []struct{ add, remove, want []UserID }{
		{add: []UserID{9, 7, 9}, want: []UserID{7, 9}},
		{add: []UserID{8, 7}, remove: []UserID{9, 5}, want: []UserID{7, 8}},
		{remove: []UserID{7, 8}},
		{add: []UserID{1}, want: []UserID{1}},
	} {
		d, err := NewDenies("", 42, c.add, c.remove)
		if err != nil {
			t.Fatal(err)
		}
		before := slices.Clone(list)
		after := d.Apply(list)
		if !slices.Equal(after, c.want) || !slices.Equal(list, before) {
			t.Errorf("%v with %v and without %v is %v, and then %v", before, c.add, c.remove, after, list)
		}
		list = after
	}
}

func TestAChangeOfDeniedViewersNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct{ add, remove []UserID }{
		"deny: must add and remove 1 to 1000 viewers, not 0":  {},
		"deny.add: must be between 1 and 9223372036854775807": {add: []UserID{2, 0}},
		"deny.remove: must not name the user":                 {remove: []UserID{42}},
		"deny.remove: must not name a viewer who is added":    {[]UserID{3}, []UserID{3}},
	} {
		if _, err := NewDenies("deny", 42, c.add, c.remove); err == nil || err.Error() != want {
			t.Errorf("%v, %v: %v, want %s", c.add, c.remove, err, want)
		}
	}
}
