package virtual

import (
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// changeOfDoors lets people on sockets be at one of two doors, which then ends by
// how, moments after they have beaten; they go to the other one. Nothing may be
// published of them but that they came.
func changeOfDoors(t *testing.T, how order) {
	t.Helper()
	const first, people = schemas.UserID(5000), 12
	rounds := 20
	if testing.Short() {
		rounds = 6
	}
	inFleet(t, func(w *world, f *fleet) {
		doors := []*member{f.members[4], f.members[5]}
		sockets := make([]*socket, people)
		for i := range sockets {
			sockets[i] = w.connect(f.doors[0], first+schemas.UserID(i), 1, "web")
		}
		for round := range rounds {
			time.Sleep(14*time.Second + time.Duration(round*137)*time.Millisecond) // nearly a whole interval, at other phases of flushes and ticks
			for _, s := range sockets {
				s.ping() // a repeat, which waits for the next flush
			}
			var leaving sync.WaitGroup
			for _, s := range sockets {
				leaving.Go(func() { <-s.closed; s.lose() })
			}
			doors[round%2].tell(how)
			leaving.Wait()
			for i, s := range sockets {
				if !how.kill {
					time.Sleep(min(s.comeBack(), 100*time.Millisecond))
				}
				sockets[i] = w.connect(f.doors[(round+1)%2], first+schemas.UserID(i), 1, "web")
			}
		}
		time.Sleep(time.Second)
		w.tap.catchUp()
		users := byUser(w.tap.committed())
		for i, s := range sockets {
			w.only(users, first+schemas.UserID(i), schemas.Online)
			s.leave()
		}
	})
}

func TestTwentyKillsOfDoorsWithBeatsNotYetWrittenTakeNobodyOffline(t *testing.T) {
	changeOfDoors(t, order{kill: true, down: 2 * time.Second})
}

func TestTwentyDeploysOfTheDoorsAreSeenByNobody(t *testing.T) {
	changeOfDoors(t, order{down: 2 * time.Second})
}
