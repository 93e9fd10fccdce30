package httpgate_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

func TestAnOverrideIsAnsweredOnceKafkaHasIt(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), func(d endpoint) {
		later := time.Now().Add(time.Hour).UTC()
		body := `{"state":"dnd","until":"` + later.Format(time.RFC3339) + `","note":"à table"}`
		answer := `{"user_id":"1","override":{"state":"dnd","until":"` + later.Format("2006-01-02T15:04:05.000Z") + `","note":"à table"}}`
		d.wants(d.send(http.MethodPut, "/presence/1/override", body), 200, answer)
		d.wants(d.send(http.MethodDelete, "/presence/1/override", ""), 200, `{"user_id":"1","override":null}`)
		d.wants(d.send(http.MethodPut, "/presence/0/override", body), 400, "")
		for body, field := range map[string]string{
			`{}`: "state", `{"state":"busy"}`: "state", `{"state":1}`: "state", `{"state":"dnd","state":"away"}`: "state", `{"state":"dnd"} x`: "body",
			`{"state":"dnd","until":"tomorrow"}`: "until", `{"state":"dnd","until":1}`: "until", `{"state":"dnd","emoji":"x"}`: "emoji",
			`{"state":"dnd","note":"` + strings.Repeat("é", 129) + `"}`: "note", `{"state":"dnd","note":"\u0000"}`: "note",
		} {
			w := d.send(http.MethodPut, "/presence/1/override", body)
			if d.wants(w, 400, ""); !strings.Contains(w.Body.String(), `"field":"`+field+`"`) {
				t.Errorf("%s is refused with %s, which does not name %s", body, w.Body, field)
			}
		}
		for _, until := range []string{time.Now().UTC().Format(time.RFC3339), "0035-08-04T18:39:08Z", "9999-12-31T23:59:59-12:00"} {
			d.wants(d.send(http.MethodPut, "/presence/1/override", `{"state":"dnd","until":"`+until+`"}`), 409, "")
		}
		d.wants(d.send(http.MethodDelete, "/presence/1/override", "{}"), 400, "")
		written := d.log.Written()
		want := schemas.Override{State: schemas.DoNotDisturb, Until: schemas.MillisOf(later.Truncate(time.Second)), Note: "à table"}
		if len(written) != 2 || *written[0].Override != want || *written[1].Override != (schemas.Override{}) || written[0].User != 1 {
			t.Errorf("got %+v", written)
		}
	})
}
