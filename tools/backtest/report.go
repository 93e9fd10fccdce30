package backtest

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Report compares what policies would have published.
type Report struct {
	From       schemas.Millis `json:"from"`
	To         schemas.Millis `json:"to"`
	Records    int64          `json:"records"`
	Counted    int64          `json:"records_counted"` // those after the warm-up and From
	Unreadable int64          `json:"unreadable,omitempty"`
	Beats      int64          `json:"beats"`
	WarmUp     float64        `json:"warm_up_seconds"`
	Flap       float64        `json:"flap_seconds"`
	// Tenant is the one whose policy was tried, and Users how many of its users the heartbeats name. Beats and
	// Policies count them alone.
	Tenant   *string   `json:"tenant,omitempty"`
	Users    int       `json:"users,omitempty"`
	Policies []Outcome `json:"policies"`
}

// Outcome is what one policy would have published after the warm-up.
type Outcome struct {
	Policy      string           `json:"policy"`
	PolicyID    string           `json:"policy_id"`
	Transitions int64            `json:"transitions"`
	Online      int64            `json:"to_online"`
	Away        int64            `json:"to_away"`
	Offline     int64            `json:"to_offline"`
	Causes      map[string]int64 `json:"by_cause"`
	// Flaps are users who were back online soon after they had left.
	Flaps int64 `json:"flaps"`
	// TimeToOffline is from when a user was last heard to when it counts as offline.
	TimeToOffline Spread `json:"time_to_offline_ms"`
	// Noticed is from when a change happened by the rules to the record at which it
	// came about.
	Noticed Spread `json:"noticed_after_ms"`
	// Visible changes are those that are fanned out; a second, over all partitions.
	Visible    int64   `json:"fanout_changes"`
	FanoutMean float64 `json:"fanout_per_second_mean"`
	FanoutP99  int32   `json:"fanout_per_second_p99"`
	FanoutPeak int32   `json:"fanout_per_second_peak"`
}

// Spread is a distribution.
type Spread struct {
	Count int   `json:"count"`
	P50   int32 `json:"p50"`
	P90   int32 `json:"p90"`
	P99   int32 `json:"p99"`
	Max   int32 `json:"max"`
}

func spreadOf(values []int32) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	at := func(part float64) int32 { return values[min(len(values)-1, int(part*float64(len(values))))] }
	return Spread{Count: len(values), P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: values[len(values)-1]}
}

// Notice says why the report means nothing; empty: it means something.
func (r *Report) Notice() string {
	if r.Records == 0 || r.Counted > 0 {
		return ""
	}
	return fmt.Sprintf("All of it is warm-up: nothing was counted, so every number of this report is 0. "+
		"Take heartbeats of more than %s, or a shorter --warm-up.", seconds(r.WarmUp))
}

// WriteText writes the report as a table with a column for each policy.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%d records with %d beats from %s to %s; the first %s of each partition are warm-up\n\n",
		r.Records, r.Beats, r.From, r.To, seconds(r.WarmUp))
	if notice := r.Notice(); notice != "" {
		fmt.Fprintf(w, "%s\n\n", notice)
	}
	if r.Tenant != nil {
		whose := "the default tenant"
		if *r.Tenant != "" {
			whose = "tenant " + *r.Tenant
		}
		fmt.Fprintf(w, "Only the %d users of %s count, and their beats. Everybody else is judged as in the log.\n\n", r.Users, whose)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, cell func(*Outcome) string) {
		fmt.Fprintf(table, "%s\t", name)
		for i := range r.Policies {
			fmt.Fprintf(table, "%s\t", cell(&r.Policies[i]))
		}
		fmt.Fprintln(table)
	}
	number := func(name string, value func(*Outcome) int64) {
		row(name, func(o *Outcome) string { return fmt.Sprint(value(o)) })
	}
	spread := func(name string, of func(*Outcome) Spread) {
		for _, q := range []struct {
			name string
			of   func(Spread) int32
		}{{"p50", func(s Spread) int32 { return s.P50 }}, {"p99", func(s Spread) int32 { return s.P99 }}, {"longest", func(s Spread) int32 { return s.Max }}} {
			row(name+", "+q.name, func(o *Outcome) string {
				if of(o).Count == 0 {
					return "-"
				}
				return (time.Duration(q.of(of(o))) * time.Millisecond).String()
			})
		}
	}
	row("", func(o *Outcome) string { return o.Policy })
	number("transitions", func(o *Outcome) int64 { return o.Transitions })
	number("  to online", func(o *Outcome) int64 { return o.Online })
	number("  to away", func(o *Outcome) int64 { return o.Away })
	number("  to offline", func(o *Outcome) int64 { return o.Offline })
	causes := map[string]bool{}
	for _, o := range r.Policies {
		for cause := range o.Causes {
			causes[cause] = true
		}
	}
	for _, cause := range slices.Sorted(maps.Keys(causes)) {
		number("  by "+cause, func(o *Outcome) int64 { return o.Causes[cause] })
	}
	number("flaps (back within "+seconds(r.Flap)+")", func(o *Outcome) int64 { return o.Flaps })
	spread("time to offline", func(o *Outcome) Spread { return o.TimeToOffline })
	spread("noticed after", func(o *Outcome) Spread { return o.Noticed })
	row("fanned out a second, mean", func(o *Outcome) string { return fmt.Sprintf("%.2f", o.FanoutMean) })
	number("fanned out a second, p99", func(o *Outcome) int64 { return int64(o.FanoutP99) })
	number("fanned out a second, peak", func(o *Outcome) int64 { return int64(o.FanoutPeak) })
	return table.Flush()
}

func seconds(s float64) string { return time.Duration(s * float64(time.Second)).String() }
