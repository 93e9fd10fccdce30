package main

import (
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/stillhere/stillhere/client/presence"
)

func TestAHistoryIsCutAtItsLimitAndThatIsKnown(t *testing.T) {
	fault := errors.New("the next page is not answered")
	rows := func(n int, end error) iter.Seq2[presence.Change, error] {
		return func(yield func(presence.Change, error) bool) {
			for range n {
				if !yield(presence.Change{To: "online"}, nil) {
					return
				}
			}
			if end != nil {
				yield(presence.Change{}, end)
			}
		}
	}
	for name, c := range map[string]struct {
		rows      int
		end       error
		limit     int
		got       int
		more, bad bool
	}{
		"fewer":       {rows: 2, limit: 3, got: 2},
		"as many":     {rows: 3, limit: 3, got: 3},
		"more":        {rows: 4, limit: 3, got: 3, more: true},
		"no limit":    {rows: 4, got: 4},
		"fault":       {rows: 2, end: fault, limit: 3, got: 2, bad: true},
		"fault after": {rows: 3, end: fault, limit: 3, got: 3, bad: true},
	} {
		var faults []error
		got, more := 0, false
		for _, err := range limited(rows(c.rows, c.end), c.limit, &more) {
			if err != nil {
				faults = append(faults, err)
				continue
			}
			got++
		}
		if got != c.got || more != c.more || slices.Contains(faults, fault) != c.bad {
			t.Errorf("%s: %d changes, more: %v, faults %v", name, got, more, faults)
		}
	}
}
