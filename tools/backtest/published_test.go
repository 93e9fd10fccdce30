package backtest

import (
	"bytes"
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// publisher is a recording with what a detector has published of it.
type publisher struct {
	Source
	changes []schemas.Transition
}

// Published gives the changes.
func (p *publisher) Published(_ context.Context, _ schemas.Millis, each func(int64, *schemas.Record, *schemas.Transition) error) error {
	for i := range p.changes {
		c := &p.changes[i]
		if err := each(c.Version.Offset(), &schemas.Record{Time: c.At}, c); err != nil {
			return err
		}
	}
	return nil
}

func TestWhatWasPublishedIsWhatThePolicyInForceGives(t *testing.T) {
	t.Parallel()
	source := must.Get(OpenRecording(bytes.NewReader(heartbeats(t)), nil))(t)
	tried := policies(t)
	p := &publisher{Source: source}
	machine := liveness.New(tried[0].Settings, 0, 1, 1, 0)
	var frame schemas.Frame
	var out liveness.Output
	must.Do(t, source.Each(t.Context(), func(r *schemas.Record) error {
		if frame.Decode(r.Value) != nil {
			return nil
		}
		out.Reset()
		machine.Apply(r.Offset, r.Time, &frame, &out)
		p.changes = append(p.changes, out.Transitions...)
		return nil
	}))
	for name, o := range map[string]Options{
		"a warm-up": {WarmUp: time.Minute}, "an instant": {From: p.changes[0].At + 90_000},
	} {
		t.Run(name, func(t *testing.T) {
			o.Policies, o.Flap = tried, 30*time.Second
			p.check(t, o)
		})
	}
}

// check tries policies, of which the first one is that of the changes.
func (p *publisher) check(t *testing.T, o Options) {
	t.Helper()
	r := must.Get(Run(t.Context(), p, o))(t)
	if len(r.Policies) != 3 || r.Policies[0].Policy != AsPublished {
		t.Fatalf("the report has %+v", r.Policies)
	}
	got, want := r.Policies[0], r.Policies[1]
	if got.PolicyID != want.PolicyID || got.Transitions == 0 || got.Transitions == int64(len(p.changes)) {
		t.Errorf("published: %+v of %d changes", got, len(p.changes))
	}
	got.Policy, got.Noticed, got.FanoutMean = want.Policy, want.Noticed, want.FanoutMean // the clock of the topic is another
	got.FanoutP99, got.FanoutPeak = want.FanoutP99, want.FanoutPeak
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if r.From < o.From {
		t.Errorf("the report begins at %d, before %d", r.From, o.From)
	}
	var text strings.Builder
	must.Do(t, r.WriteText(&text))
	if !strings.Contains(text.String(), AsPublished) {
		t.Errorf("the table has no column for it:\n%s", text.String())
	}
}
