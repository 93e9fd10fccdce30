package schemas

import (
	"encoding/binary"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// Follow is a record of the graph topic: Follower receives the changes of User, or does so no more
// if Removed; see graph.proto.
type Follow struct {
	User, Follower UserID
	Removed        bool
	// Names are those of User and Follower in text mode, both of one tenant; a removal has none.
	Names [2]Name
}

// Key is the key of the record: both ids as 8 bytes big-endian, the user first. Each edge has its
// own key, so that compaction keeps the newest record of each edge.
func (f Follow) Key() []byte {
	return f.Follower.AppendKey(f.User.AppendKey(make([]byte, 0, 2*keyLength)))
}

// Encode is the value of the record; nil, a tombstone, if Removed.
func (f Follow) Encode() []byte {
	if f.Removed {
		return nil
	}
	return encode(&pb.Follow{Schema: messageVersion, UserId: int64(f.User), FollowerId: int64(f.Follower),
		Tenant: f.Names[0].Tenant, UserName: f.Names[0].Text, FollowerName: f.Names[1].Text})
}

// DecodeFollow reads a record of the graph topic. Only a nil value is a removal: compaction does
// not take an empty value for a tombstone either. Every error is a *FieldError.
func DecodeFollow(key, value []byte) (Follow, error) {
	if len(key) != 2*keyLength {
		return Follow{}, Invalid("key", "must be user_id and follower_id as 8 bytes big-endian each")
	}
	f := Follow{User: UserID(binary.BigEndian.Uint64(key)), Follower: UserID(binary.BigEndian.Uint64(key[keyLength:])),
		Removed: value == nil}
	switch {
	case !f.User.Valid():
		return Follow{}, invalidUser("key.user_id")
	case !f.Follower.Valid():
		return Follow{}, invalidUser("key.follower_id")
	case f.User == f.Follower:
		return Follow{}, Invalid("key.follower_id", "must not be the user")
	case f.Removed:
		return f, nil
	}
	var m pb.Follow
	if err := decode("follow", value, &m, m.GetSchema); err != nil {
		return Follow{}, err
	}
	if UserID(m.UserId) != f.User || UserID(m.FollowerId) != f.Follower {
		return Follow{}, Invalid("follow", "must have the ids of the key")
	}
	if m.UserName == "" && m.FollowerName == "" && m.Tenant == "" {
		return f, nil
	}
	f.Names = [2]Name{{m.Tenant, m.UserName}, {m.Tenant, m.FollowerName}}
	if err := f.Names[0].Check("user_name"); err != nil {
		return Follow{}, err
	}
	return f, CheckName("follower_name", m.FollowerName)
}
