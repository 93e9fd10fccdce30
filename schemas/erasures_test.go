package schemas

import (
	"slices"
	"testing"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

func TestErasedUsersReadAndWriteAsPublished(t *testing.T) {
	t.Parallel()
	want := []UserID{42, 1<<63 - 1}
	records := ErasureRecords(want)
	if len(records) != 1 || records[0].Topic != Erasures || records[0].Key != nil {
		t.Fatalf("the records are %+v", records)
	}
	if got, err := DecodeErasures(golden(t, "erasures-v1", records[0].Value)); err != nil || !slices.Equal(got, want) {
		t.Errorf("reads as %v, %v", got, err)
	}
}

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

func FuzzDecodeErasures(f *testing.F) {
	f.Add(ErasureRecords([]UserID{42, 43})[0].Value)
	f.Fuzz(func(t *testing.T, value []byte) {
		users, err := DecodeErasures(value)
		if err != nil {
			if !IsInvalid(err) {
				t.Fatalf("refused with %v, which is no *FieldError", err)
			}
			return
		}
		if again, err := DecodeErasures(ErasureRecords(users)[0].Value); err != nil || !slices.Equal(again, users) {
			t.Fatalf("%v reads back as %v, %v", users, again, err)
		}
	})
}
