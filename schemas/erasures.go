package schemas

import (
	"slices"
	"strconv"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// MaxErasures is how many users a record of the topic erasures may have.
const MaxErasures = 1000

// ErasureRecords are the records of the topic erasures that say that users were erased; none for no users.
// Write them when Kafka has acknowledged the erasures.
func ErasureRecords(users []UserID) (records []Outgoing) {
	for some := range slices.Chunk(users, MaxErasures) {
		ids := make([]int64, len(some))
		for i, user := range some {
			ids[i] = int64(user)
		}
		records = append(records, Outgoing{Topic: Erasures, Value: encode(&pb.Erasures{Schema: messageVersion, UserIds: ids})})
	}
	return records
}

// DecodeErasures returns the users of a record of the topic erasures. Every error is a *FieldError.
func DecodeErasures(value []byte) ([]UserID, error) {
	var m pb.Erasures
	if err := decode("erasures", value, &m, m.GetSchema); err != nil {
		return nil, err
	}
	if n := len(m.UserIds); n < 1 || n > MaxErasures {
		return nil, Invalid("user_ids", "must have 1 to "+strconv.Itoa(MaxErasures)+" elements")
	}
	users := make([]UserID, len(m.UserIds))
	for i, id := range m.UserIds {
		if users[i] = UserID(id); !users[i].Valid() {
			return nil, invalidUser(rowField("user_ids", i))
		}
	}
	return users, nil
}
