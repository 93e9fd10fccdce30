package schemas

import (
	"slices"
	"testing"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

func TestManyErasedUsersTakeSeveralRecords(t *testing.T) {
	t.Parallel()
	if ErasureRecords(nil) != nil {
		t.Error("there is a record of nobody")
	}
	var want, got []UserID
	for user := range UserID(2*MaxErasures + 1) {
		want = append(want, user+1)
	}
	records := ErasureRecords(want)
	for _, r := range records {
		users, err := DecodeErasures(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, users...)
	}
	if len(records) != 3 || !slices.Equal(got, want) {
		t.Errorf("%d records with %d users", len(records), len(got))
	}
}

func TestWhatIsWrongWithErasedUsersIsNamed(t *testing.T) {
	t.Parallel()
	const elements, id = "user_ids: must have 1 to 1000 elements", "must be between 1 and 9223372036854775807"
	for _, c := range []struct {
		m    *pb.Erasures
		want string
	}{
		{&pb.Erasures{Schema: 2, UserIds: []int64{1}}, "schema: is 2, this program reads version 1"},
		{&pb.Erasures{Schema: 1}, elements},
		{&pb.Erasures{Schema: 1, UserIds: make([]int64, MaxErasures+1)}, elements},
		{&pb.Erasures{Schema: 1, UserIds: []int64{1, 0}}, "user_ids[1]: " + id},
		{&pb.Erasures{Schema: 1, UserIds: []int64{-1}}, "user_ids[0]: " + id},
	} {
		if _, err := DecodeErasures(encode(c.m)); err == nil || err.Error() != c.want {
			t.Errorf("%v: %v, want %s", c.m, err, c.want)
		}
	}
}
