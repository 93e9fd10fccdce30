package schemas

import (
	"testing"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

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
