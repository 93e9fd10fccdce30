package virtual

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/schemas"
)

// All gateways are cut off from Kafka while the detector is not, twice: for six minutes, in
// which nobody may go, and for longer than the breaker holds, after which all go by their limits.
func TestGatewaysThatAreCutOffForMinutesTakeNobodyOfflineUntilTheBreakerGivesUp(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 2, tick: time.Second}, func(w *world) {
		p := w.start("all", "one")
		const perGateway = 150
		names := []string{"gw-a", "gw-b", "gw-c", "gw-d"}
		until := func(end schemas.Millis) {
			for at := now() + second - now()%second; at < end; at += 5 * second {
				w.sleepTo(at)
				for g, name := range names {
					var rows []row
					for user := range schemas.UserID(perGateway) {
						rows = append(rows, row{User: schemas.UserID(g)*1000 + user + 1, Device: 1, Kind: "mobile"})
					}
					w.post(p.base, gateway{name, 1}, rows...)
				}
			}
		}
		cutFor := func(long time.Duration) {
			cut := w.kafka.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: schemas.Heartbeats.Name(schemas.DefaultPrefix),
				Err: kerr.NotEnoughReplicas, Count: -1, When: func(r kmsg.Request) bool { return !onlyTicks(r) }})
			time.Sleep(long)
			cut.Remove()
		}
		open := func(want string) {
			w.Helper()
			if _, text := w.ask(http.MethodGet, p.admin+"/metrics", nil); !strings.Contains(string(text), "\nstillhere_detector_breaker_open_partitions "+want+"\n") {
				w.Errorf("the breaker is not open in %s partitions", want)
			}
		}
		changes := func() (n int) {
			w.tap.catchUp()
			for _, of := range w.tap.committed() {
				n += len(of)
			}
			return n
		}
		until(now() + 2*minute)
		cutFor(time.Minute)
		open("2")
		cutFor(5 * time.Minute)
		open("2")
		until(now() + 2*minute)
		open("0")
		if n := changes(); n != perGateway*len(names) {
			w.Errorf("%d changes, of %d people who all stayed", n, perGateway*len(names))
		}
		cutFor(30 * time.Minute)
		open("0") // it gives up after ten minutes
		if n := changes(); n != 3*perGateway*len(names) {
			w.Errorf("%d changes, after all of %d have gone away and offline", n, perGateway*len(names))
		}
		users := byUser(w.likeTheOracle())
		for id := range users {
			w.only(users, id, schemas.Online, schemas.Away, schemas.Offline)
		}
	})
}
