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
	{Name: "bench", Value: func(f figureRow) any { return f.Bench }},
	{Name: "name", Value: func(f figureRow) any { return f.Name }},
	{Name: "value", Value: func(f figureRow) any { return f.Value }},
	{Name: "unit", Value: func(f figureRow) any { return f.Unit }},
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
