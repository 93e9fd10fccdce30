package loadtest

import (
	"iter"

	"github.com/stillhere/stillhere/tools/output"
)

// figureRow is a figure with the bench that measured it.
type figureRow struct {
	Bench string `json:"bench"`
	Figure
}

// rows are the figures of a report.
func (r *Report) rows() iter.Seq2[figureRow, error] {
	return func(yield func(figureRow, error) bool) {
		for _, result := range r.Results {
			for _, f := range result.Figures {
				if !yield(figureRow{result.Name, f}, nil) {
					return
				}
			}
		}
	}
}

var figureColumns = []output.Column[figureRow]{
	{Name: "bench", Head: "BENCH", Value: func(f figureRow) any { return f.Bench }},
	{Name: "name", Head: "FIGURE", Value: func(f figureRow) any { return f.Name }},
	{Name: "value", Value: func(f figureRow) any { return f.Value }},
	{Head: "VALUE", Value: func(f figureRow) any { return Number(f.Value) }},
	{Name: "unit", Head: "UNIT", Value: func(f figureRow) any { return f.Unit }},
	{Head: "TARGET", Value: func(f figureRow) any { return f.target() }},
	{Name: "target", Value: func(f figureRow) any { return unlessZero(f.Target) }},
	{Name: "less_is_better", Value: func(f figureRow) any { return f.Less }},
}

// unlessZero is null for what there is not.
func unlessZero(value float64) *float64 {
	if value == 0 {
		return nil
	}
	return &value
}
