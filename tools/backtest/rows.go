package backtest

import (
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/output"
)

// Columns are those of outcomes: the fields of the report's JSON, those of nested objects after the name of the object.
// There is one for each cause, so that they are the same for all reports.
func Columns() []output.Column[Outcome] {
	column := func(name string, value func(Outcome) any) output.Column[Outcome] {
		return output.Column[Outcome]{Name: name, Value: value}
	}
	all := []output.Column[Outcome]{
		column("policy", func(o Outcome) any { return o.Policy }),
		column("policy_id", func(o Outcome) any { return o.PolicyID }),
		column("transitions", func(o Outcome) any { return o.Transitions }),
		column("to_online", func(o Outcome) any { return o.Online }),
		column("to_away", func(o Outcome) any { return o.Away }),
		column("to_offline", func(o Outcome) any { return o.Offline }),
	}
	for _, cause := range schemas.Causes {
		word := schemas.CauseWord(cause)
		all = append(all, column("by_cause_"+word, func(o Outcome) any { return o.Causes[word] }))
	}
	all = append(all, column("flaps", func(o Outcome) any { return o.Flaps }))
	for _, spread := range []struct {
		name string
		of   func(Outcome) Spread
	}{
		{"time_to_offline_ms", func(o Outcome) Spread { return o.TimeToOffline }},
		{"noticed_after_ms", func(o Outcome) Spread { return o.Noticed }},
	} {
		all = append(all,
			column(spread.name+"_count", func(o Outcome) any { return spread.of(o).Count }),
			column(spread.name+"_p50", func(o Outcome) any { return spread.of(o).P50 }),
			column(spread.name+"_p90", func(o Outcome) any { return spread.of(o).P90 }),
			column(spread.name+"_p99", func(o Outcome) any { return spread.of(o).P99 }),
			column(spread.name+"_max", func(o Outcome) any { return spread.of(o).Max }))
	}
	return append(all,
		column("fanout_changes", func(o Outcome) any { return o.Visible }),
		column("fanout_per_second_mean", func(o Outcome) any { return o.FanoutMean }),
		column("fanout_per_second_p99", func(o Outcome) any { return o.FanoutP99 }),
		column("fanout_per_second_peak", func(o Outcome) any { return o.FanoutPeak }))
}
