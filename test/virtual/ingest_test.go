package virtual

import (
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// restartOfIngest connects people to one of two processes of ingest, which then ends as how
// says, moments after they have beaten; they connect to the other one. Only their arrival may
// be published.
func restartOfIngest(t *testing.T, how order) {
	t.Helper()
	const first, people = schemas.UserID(5000), 12
	rounds := 20
	if testing.Short() {
		rounds = 6
	}
	inFleet(t, func(w *world, f *fleet) {
		ingest := []*member{f.members[4], f.members[5]}
		sockets := make([]*socket, people)
		for i := range sockets {
			sockets[i] = w.connect(f.bases[0], first+schemas.UserID(i), 1, "web")
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
			ingest[round%2].give(how)
			leaving.Wait()
			for i, s := range sockets {
				if !how.kill {
					time.Sleep(min(s.reconnectAfter(), 100*time.Millisecond))
				}
				sockets[i] = w.connect(f.bases[(round+1)%2], first+schemas.UserID(i), 1, "web")
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

func TestTwentyKillsOfIngestWithBeatsNotYetWrittenTakeNobodyOffline(t *testing.T) {
	long(t)
	restartOfIngest(t, order{kill: true, down: 2 * time.Second})
}

func TestTwentyDeploysOfIngestAreSeenByNobody(t *testing.T) {
	long(t)
	restartOfIngest(t, order{down: 2 * time.Second})
}
