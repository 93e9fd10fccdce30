package replay

import (
	"errors"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// merge hands the rows of all sources to take, the source first that has come
// least far, so that the order depends on the rows alone and not on which source
// is fast. Every source is read to its end or error.
func merge(sources []*source, take func(e *store.Entry, latest schemas.Millis) error) error {
	var open []*source
	for _, s := range sources {
		more, err := s.advance()
		if err != nil {
			return err
		}
		if more {
			open = append(open, s)
		}
	}
	for len(open) > 0 {
		first := 0
		limit := schemas.Millis(1<<63 - 1) // how far the others have come
		for i, s := range open {
			switch {
			case s.latest < open[first].latest:
				limit = open[first].latest
				first = i
			case i != first:
				limit = min(limit, s.latest)
			}
		}
		s := open[first]
		// Of two that have come equally far the first in the list goes first, and
		// goes on only while it is behind.
		for from := s.latest; s.latest == from || s.latest < limit; {
			if err := take(&s.rows[s.next], s.latest); err != nil {
				return err
			}
			more, err := s.advance()
			if err != nil {
				return err
			}
			if !more {
				open = append(open[:first], open[first+1:]...)
				break
			}
		}
	}
	return nil
}

// drain waits for the goroutines of the sources, whose context has ended.
func drain(sources []*source) error {
	var faults []error
	for _, s := range sources {
		for range s.blocks { //nolint:revive // nobody wants them any more
		}
		select {
		case err := <-s.ended:
			faults = append(faults, err)
		default: // merge has taken it
		}
	}
	return errors.Join(faults...)
}
