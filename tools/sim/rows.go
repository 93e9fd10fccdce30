package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stillhere/stillhere/tools/output"
)

// Columns are those of results: the fields of their JSON. Faults are written as kind=number.
var Columns = []output.Column[Result]{
	{Name: "seed", Value: func(r Result) any { return r.Seed }},
	{Name: "hours", Value: func(r Result) any { return r.Hours }},
	{Name: "records", Value: func(r Result) any { return r.Records }},
	{Name: "beats", Value: func(r Result) any { return r.Beats }},
	{Name: "restarts", Value: func(r Result) any { return r.Restarts }},
	{Name: "transitions", Value: func(r Result) any { return r.Transitions }},
	{Name: "faults", Value: func(r Result) any {
		var all []string
		for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
			all = append(all, fmt.Sprintf("%s=%d", kind, r.Faults[kind]))
		}
		return all
	}},
	{Name: "took_seconds", Value: func(r Result) any { return r.Took }},
	{Name: "difference", Value: func(r Result) any { return r.Difference }},
	{Name: "case", Value: func(r Result) any { return r.Case }},
}
