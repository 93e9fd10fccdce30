package virtual

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// A process of ingest that stops in good order is shown as drained: in the cause, in the log
// and in the counters, of which that of lost ones fires an alert.
func TestAGatewayThatStopsInGoodOrderIsNowhereReportedAsLost(t *testing.T) {
	inWorld(t, size{partitions: 4}, func(w *world) {
		said := &logged{Handler: w.log.Handler()}
		w.log = slog.New(said)
		d := w.start("detector", "detector")
		const people = 20
		for round := range 3 { // the gateway has the same name each time
			in := w.start("ingest", "ingest")
			var sockets []*socket
			for i := range people {
				sockets = append(sockets, w.connect(in.base, schemas.UserID(1+i), 1, "web"))
			}
			time.Sleep(10 * time.Second)
			in.stop()
			for _, s := range sockets {
				<-s.closed
				s.lose()
			}
			if round == 1 {
				time.Sleep(10 * time.Second) // they are back in time
				continue
			}
			time.Sleep(15 * time.Minute) // nobody comes back
		}
		causes := map[schemas.Cause]int{}
		w.tap.catchUp()
		for _, in := range w.tap.committed() {
			for _, t := range in {
				causes[t.Cause]++
			}
		}
		if causes[schemas.GatewayDrained] != 4*people || len(causes) != 2 || causes[schemas.FirstBeat] != 2*people {
			w.Errorf("the causes are %v", causes)
		}
		_, text := w.ask(http.MethodGet, d.admin+"/metrics", nil)
		if !strings.Contains(string(text), "\nstillhere_detector_gateways_lost_total 0\n") || strings.Contains(string(text), "\nstillhere_detector_gateways_drained_total 0\n") {
			w.Errorf("the counters differ:\n%s", text)
		}
		if lost, drained := said.count("gateway lost"), said.count("gateway drained"); lost != 0 || drained == 0 {
			w.Errorf("%d lines report lost gateways, %d of drained ones", lost, drained)
		}
	})
}
