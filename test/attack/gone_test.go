//go:build unix

package attack_test

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/test/testkit"
)

// Who asks and goes away fills no log, and makes nobody believe that stores or Kafka do not
// answer.
func TestRequestsThatAreGivenUpFillNoLogAndRaiseNoAlarm(t *testing.T) {
	t.Parallel()
	h := testkit.NewDev(t)
	h.Up()
	var ids, beats []string
	for i := range 1000 {
		ids = append(ids, strconv.Itoa(i+1))
		beats = append(beats, fmt.Sprintf(`{"user_id":%d,"device_id":1}`, i+1))
	}
	body := `{"beats":[` + strings.Join(beats, ",") + `]}`
	const asked = 200
	for range asked {
		d := dialRaw(t, h.Listen)
		d.say("GET /presence/batch?user_ids="+strings.Join(ids, ",")+" HTTP/1.1", "Host: "+h.Listen, "", "")
		d.Close()
		d = dialRaw(t, h.Listen)
		d.say("POST /presence/heartbeats HTTP/1.1", "Host: "+h.Listen, fmt.Sprint("Content-Length: ", len(body)), "", body)
		d.Close()
	}
	series := regexp.MustCompile(`(?m)^stillhere_(?:ingest_http|lastseen)_requests_total\{.*(?:code|status)="(\d+)".*\} (\d+)$`)
	var counted map[string]int
	testkit.Until(t, "all are counted", 20*time.Second, func() bool {
		answer := must.Get(h.Client.Get("http://" + h.Admin + "/metrics"))(t)
		defer answer.Body.Close()
		text := must.Get(io.ReadAll(answer.Body))(t)
		counted = map[string]int{}
		sum := 0
		for _, one := range series.FindAllStringSubmatch(string(text), -1) {
			n := must.Get(strconv.Atoi(one[2]))(t)
			counted[one[1]] += n
			sum += n
		}
		return sum == 2*asked
	})
	t.Log(counted)
	if n := strings.Count(h.Err.String(), "a read was answered with 503"); n > 0 || counted["503"] > 0 {
		t.Errorf("the log reports %d reads that were not answered; requests by status: %v", n, counted)
	}
}
