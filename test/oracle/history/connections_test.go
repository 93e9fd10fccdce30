package history

import "github.com/stillhere/stillhere/schemas"

// withConnections is h with gateways that hold devices, are heard more often, and name all their connections now and
// then. The seed says where.
func withConnections(h *History, seed uint64) *History {
	s := &source{bytes: ofSeed(seed+4<<40, 100+40*len(h.Records))}
	type device struct {
		gateway string
		user    schemas.UserID
		device  schemas.DeviceID
	}
	newest := map[device]schemas.ConnectionID{}
	epochs, replaces := map[string]int64{}, map[string]bool{}
	often := one(s, 2, 3, 12)
	for i := range h.Records {
		r := &h.Records[i]
		if r.Tick && len(epochs) > 0 && s.chance(2) {
			r.Gateway = one(s, "a", "b", "c")
			r.Epoch = epochs[r.Gateway]
			if r.Tick = r.Epoch == 0; r.Tick {
				r.Gateway = ""
			}
		}
		if r.Gateway == "" {
			continue
		}
		epochs[r.Gateway] = r.Epoch
		if r.Begins = s.chance(10); r.Begins {
			replaces[r.Gateway] = true
		}
		if replaces[r.Gateway] && s.chance(2) || s.chance(30) {
			r.Ends, replaces[r.Gateway] = true, false
		}
		for j := range r.Rows {
			row := &r.Rows[j]
			of := device{r.Gateway, row.User, row.Device}
			if s.chance(5) {
				continue // about no connection
			}
			row.Connection = newest[of]
			if row.Connection == 0 || s.chance(3) {
				row.Connection = schemas.ConnectionID(1 + s.below(4))
			}
			if row.Lost = !row.Bye && s.chance(5); !row.Bye && !row.Lost {
				newest[of] = row.Connection
			}
			if row.Lost && s.chance(4) {
				row.Connection = 0
			}
			if !s.chance(often) {
				row.Idle = 0
			}
		}
	}
	return h
}
