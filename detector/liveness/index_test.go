package liveness

import (
	"math/rand/v2"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

func TestTheIndexFindsWhoIsInItAndNobodyElseHoweverUsersComeAndGo(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	x, s := newIndex(12345), &store{}
	in := map[schemas.UserID]uint32{}
	var ids []schemas.UserID
	check := func() {
		used := 0
		for i, seg := range x.directory {
			if i > 0 && x.directory[i-1] == seg {
				continue
			}
			used += int(seg.used)
			if empty := len(seg.slots) - int(seg.used+seg.gaps); empty < len(seg.slots)/10 {
				t.Fatalf("a segment of %d slots has %d users and %d gaps: searches get long", len(seg.slots), seg.used, seg.gaps)
			}
		}
		if used != len(in) {
			t.Fatalf("%d slots are used by %d users", used, len(in))
		}
		for id, e := range in {
			if got := x.find(s, x.hash(id), id); got != e {
				t.Fatalf("user %d is found at %d, want %d", id, got, e)
			}
		}
		for range 1000 {
			if id := schemas.UserID(random.Int64N(1 << 40)); in[id] == 0 && x.find(s, x.hash(id), id) != none {
				if _, there := in[id]; !there {
					t.Fatalf("user %d is found, who is not there", id)
				}
			}
		}
	}
	// Tides: mostly coming, mostly going, and both alike.
	for _, coming := range []int{90, 50, 10, 60, 50, 2, 95, 0} {
		for range 30_000 {
			if random.IntN(100) < coming {
				id := schemas.UserID(random.Int64N(1<<40) + 1)
				if _, there := in[id]; there {
					continue
				}
				e := s.add(id)
				x.insert(s, x.hash(id), e)
				in[id], ids = e, append(ids, id)
			} else if len(ids) > 0 {
				i := random.IntN(len(ids))
				id := ids[i]
				ids[i], ids = ids[len(ids)-1], ids[:len(ids)-1]
				x.remove(s, x.hash(id), in[id])
				s.remove(in[id])
				delete(in, id)
			}
		}
		check()
	}
	if len(in) > 0 || x.segments > 2 {
		t.Errorf("%d users, %d segments are left", len(in), x.segments)
	}
}
