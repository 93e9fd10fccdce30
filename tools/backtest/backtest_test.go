package backtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// heartbeats is ten minutes of a partition: user 1 beats all the time, user 2 falls
// silent for a minute once, user 3 says bye after five minutes.
func heartbeats(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	recorder := must.Get(NewRecorder(&out, "presence.heartbeats", 1, InForce{}))(t)
	const start = schemas.Millis(1_795_000_000_000)
	offset := int64(0)
	put := func(at schemas.Millis, value []byte) {
		must.Do(t, recorder.Write(&schemas.Record{Offset: offset, Time: start + at, Value: value}))
		offset++
	}
	for at := schemas.Millis(0); at < 600_000; at += 250 {
		put(at, schemas.AppendTick(nil))
		if at%15_000 != 0 {
			continue
		}
		beats := []schemas.Beat{{User: 1, Device: 1}}
		if at < 120_000 || at >= 165_000 {
			beats = append(beats, schemas.Beat{User: 2, Device: 1})
		}
		if at <= 300_000 {
			beats = append(beats, schemas.Beat{User: 3, Device: 1, Bye: at == 300_000})
		}
		put(at, schemas.AppendFrame(nil, schemas.FrameHead{}, beats))
	}
	put(600_000, []byte{0xff})
	must.Do(t, recorder.Close())
	return out.Bytes()
}

func policies(t *testing.T) []Policy {
	t.Helper()
	usual := must.Get(ParsePolicy(liveness.Defaults(), false, "default"))(t)
	patient := must.Get(ParsePolicy(liveness.Defaults(), false, "online_ttl=60s", "away_ttl=0"))(t)
	return []Policy{usual, patient}
}

func report(t *testing.T, recording []byte) *Report {
	t.Helper()
	source := must.Get(OpenRecording(bytes.NewReader(recording), nil))(t)
	r, err := Run(t.Context(), source, Options{Policies: policies(t), Flap: 30 * time.Second, WarmUp: time.Minute})
	must.Do(t, err)
	return r
}

func TestAMorePatientPolicyLetsFewerUsersFlap(t *testing.T) {
	t.Parallel()
	r := report(t, heartbeats(t))
	if r.Unreadable != 1 || r.Beats == 0 || len(r.Policies) != 2 {
		t.Fatalf("report %+v", r)
	}
	usual, patient := r.Policies[0], r.Policies[1]
	// User 2 was last heard at 105 s, so it left at 150 s and was back at 165 s.
	if usual.Flaps != 1 || usual.Away != 1 || usual.Online != 1 || usual.Offline != 1 || usual.Transitions != 3 || usual.Causes["bye"] != 1 {
		t.Errorf("usual: %+v", usual)
	}
	if patient.Policy != "online_ttl=60s,away_ttl=0" || patient.Flaps != 0 || patient.Transitions != 1 || patient.Causes["bye"] != 1 || patient.TimeToOffline.Count != 1 {
		t.Errorf("patient: %+v", patient)
	}
	if usual.PolicyID == patient.PolicyID || usual.FanoutPeak != 1 || usual.Visible != 3 {
		t.Errorf("usual: %+v", usual)
	}
}

func TestAReportOfNothingButWarmUpSaysSo(t *testing.T) {
	t.Parallel()
	for warmUp, counted := range map[time.Duration]bool{0: true, time.Minute: true, 599 * time.Second: true, 10 * time.Minute: false, time.Hour: false} {
		source := must.Get(OpenRecording(bytes.NewReader(heartbeats(t)), nil))(t)
		r := must.Get(Run(t.Context(), source, Options{Policies: policies(t), WarmUp: warmUp}))(t)
		var text strings.Builder
		must.Do(t, r.WriteText(&text))
		if said := strings.Contains(text.String(), "All of it is warm-up"); said == counted || (r.Counted > 0) != counted || r.Counted > r.Records {
			t.Errorf("a warm-up of %s: %d of %d records count\n%s", warmUp, r.Counted, r.Records, text.String())
		}
	}
}

func TestTheSameRecordingGivesTheSameReport(t *testing.T) {
	t.Parallel()
	recording := heartbeats(t)
	var all [2][]byte
	for i := range all {
		r := report(t, recording)
		var text bytes.Buffer
		must.Do(t, json.NewEncoder(&text).Encode(r))
		must.Do(t, r.WriteText(&text))
		all[i] = text.Bytes()
	}
	if !bytes.Equal(all[0], all[1]) {
		t.Errorf("%s\n%s", all[0], all[1])
	}
	for _, want := range []string{"default  online_ttl=60s,away_ttl=0", "flaps (back within 30s)", "by bye", "time to offline, p99"} {
		if !strings.Contains(string(all[0]), want) {
			t.Errorf("%q is missing in\n%s", want, all[0])
		}
	}
}

func TestABrokenRecordingIsAnErrorThatSaysWhere(t *testing.T) {
	t.Parallel()
	if _, err := OpenRecording(strings.NewReader("no recording"), nil); err == nil || !strings.Contains(err.Error(), "stillhere record") {
		t.Errorf("error %v", err)
	}
	var out bytes.Buffer
	recorder, err := NewRecorder(&out, "presence.heartbeats", 1, InForce{})
	must.Do(t, err)
	must.Do(t, recorder.Write(&schemas.Record{Time: 1, Value: schemas.AppendTick(nil)}))
	_, err = recorder.out.Write([]byte{0, 1})
	must.Do(t, errors.Join(err, recorder.Close()))
	source := must.Get(OpenRecording(bytes.NewReader(out.Bytes()), nil))(t)
	if _, err := Run(t.Context(), source, Options{Policies: policies(t)}); err == nil || !strings.Contains(err.Error(), "record 2 of the recording") {
		t.Errorf("error %v", err)
	}
}

func TestPoliciesAreCheckedAndNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"online_tll=30s":              "online_tll is no setting of a policy",
		"online_ttl=20s,away_ttl=10s": "away_ttl",
		"cohort_rate=0":               "cohort_rate",
	} {
		if _, err := ParsePolicy(liveness.Defaults(), false, strings.Split(text, ",")...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
	base := liveness.Defaults()
	base.AwayTTL = 7 * time.Minute
	p := must.Get(ParsePolicy(base, false, "idle_after=0", "online-ttl=10s"))(t)
	if p.Name != "idle_after=0,online-ttl=10s" || p.Settings.IdleAfter != 0 || p.Settings.AwayTTL != base.AwayTTL {
		t.Errorf("read as %+v", p)
	}
}
