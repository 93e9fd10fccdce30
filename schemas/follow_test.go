package schemas

import (
	"encoding/hex"
	"testing"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

func TestFollowsOfEveryVersionReadAndWriteAsPublished(t *testing.T) {
	t.Parallel()
	want := Follow{User: 1 << 40, Follower: 42}
	key := golden(t, "follow-key-v1", want.Key())
	if got, err := DecodeFollow(key, golden(t, "follow-v1", want.Encode())); err != nil || got != want {
		t.Errorf("reads as %+v, %v", got, err)
	}
	want.Removed = true
	if got, err := DecodeFollow(key, want.Encode()); err != nil || got != want {
		t.Errorf("the tombstone reads as %+v, %v", got, err)
	}
}

func TestFollowsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	good := Follow{User: 1, Follower: 2}
	for name, record := range map[string]struct{ key, value []byte }{
		"no key":              {nil, good.Encode()},
		"the key of one user": {UserID(1).Key(), good.Encode()},
		"user 0":              {Follow{User: 0, Follower: 2}.Key(), nil},
		"a negative follower": {Follow{User: 1, Follower: -2}.Key(), nil},
		"of oneself":          {Follow{User: 3, Follower: 3}.Key(), nil},
		"an empty value":      {good.Key(), []byte{}},
		"another version":     {good.Key(), encode(&pb.Follow{Schema: 2, UserId: 1, FollowerId: 2})},
		"the ids of another":  {good.Key(), Follow{User: 2, Follower: 1}.Encode()},
		"no Protobuf":         {good.Key(), []byte(`{"user_id":1}`)},
	} {
		if f, err := DecodeFollow(record.key, record.value); !IsInvalid(err) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

func FuzzDecodeFollow(f *testing.F) {
	good := Follow{User: 1, Follower: 2}
	f.Add(good.Key(), good.Encode(), false)
	f.Add(good.Key(), []byte{}, true)
	f.Fuzz(func(t *testing.T, key, value []byte, tombstone bool) {
		if tombstone {
			value = nil
		}
		got, err := DecodeFollow(key, value)
		if err != nil {
			if !IsInvalid(err) {
				t.Fatalf("an error without a field: %v", err)
			}
			return
		}
		if hex.EncodeToString(got.Key()) != hex.EncodeToString(key) {
			t.Fatalf("%+v has the key %x, not %x", got, got.Key(), key)
		}
		if again, err := DecodeFollow(got.Key(), got.Encode()); err != nil || again != got {
			t.Fatalf("%+v is written and read as %+v, %v", got, again, err)
		}
	})
}
