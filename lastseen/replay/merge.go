package replay

import (
	"context"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

const (
	// blockRows is how many rows go from a source to the merge at a time.
	blockRows = 2048
	// blocksAhead is how many blocks a source may be ahead of the merge.
	blocksAhead = 2
)

// source is a run of rows that another goroutine reads.
type source struct {
	blocks chan []store.Entry
	err    error // of the reading; set before blocks is closed

	// Owned by the merge.
	rows   []store.Entry
	next   int
	latest schemas.Millis // of the rows up to and including next
}

// startSource calls read in a goroutine. read hands rows to put, which copies them. The goroutine
// ends when read does; after ctx ends, somebody must receive from blocks until it is closed.
func startSource(ctx context.Context, read func(put func(*store.Entry) error) error) *source {
	s := &source{blocks: make(chan []store.Entry, blocksAhead), next: -1}
	go func() {
		defer close(s.blocks)
		block := make([]store.Entry, 0, blockRows)
		send := func() error {
			select {
			case s.blocks <- block:
				block = make([]store.Entry, 0, blockRows) // the merge keeps the rows of the other one
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		s.err = read(func(e *store.Entry) error {
			if block = append(block, *e); len(block) < blockRows {
				return nil
			}
			return send()
		})
		if s.err == nil && len(block) > 0 {
			s.err = send()
		}
	}()
	return s
}

// advance makes the next row the current one. At the end it returns false and the error of the
// reading.
func (s *source) advance() (bool, error) {
	if s.next++; s.next >= len(s.rows) {
		rows, more := <-s.blocks
		if !more {
			return false, s.err
		}
		s.rows, s.next = rows, 0
	}
	s.latest = max(s.latest, s.rows[s.next].At)
	return true, nil
}

// merge calls take for the rows of all sources, and reads every source to its end or error. The
// next row is that of the source that has come least far, so the order depends on the rows alone
// and not on which source is fast. latest is how far all sources have come. Rows stay valid.
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
		// Of two sources that have come equally far, the first in the list is read first, and only
		// while it is behind.
		s := open[first]
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
