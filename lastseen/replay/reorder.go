package replay

import (
	"cmp"
	"slices"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

const (
	// sortRows is how many new rows are sorted at a time at least.
	sortRows = 32 << 10
	// maxRows bounds the buffer, at about 200 bytes a row. If there are more, half of them are
	// emitted early.
	maxRows = 1 << 20
)

// reorderBuffer orders rows that are nearly in order.
type reorderBuffer struct {
	hold schemas.Millis // how far the sources must be ahead of a row that is emitted
	emit func(*store.Entry) error
	// order is the order of the rows; the instant comes first.
	order func(a, b *store.Entry) int

	rows    []heldRow
	enough  int // rows at which to sort next
	last    *store.Entry
	late    int64 // rows that came after one that belongs behind them
	doubles int64
}

// heldRow points to a row in its block. at is a copy, so that sorting rarely reads the row.
type heldRow struct {
	at  schemas.Millis
	row *store.Entry
}

// take takes the next row, which must stay valid; latest is how far all sources have come.
func (b *reorderBuffer) take(e *store.Entry, latest schemas.Millis) error {
	b.rows = append(b.rows, heldRow{e.At, e})
	if len(b.rows) < max(b.enough, sortRows) {
		return nil
	}
	return b.release(latest - b.hold)
}

// flush emits all rows.
func (b *reorderBuffer) flush() error { return b.release(1<<63 - 1) }

// release emits the rows before the instant.
func (b *reorderBuffer) release(before schemas.Millis) error {
	slices.SortFunc(b.rows, func(x, y heldRow) int {
		if c := cmp.Compare(x.at, y.at); c != 0 {
			return c
		}
		return b.order(x.row, y.row)
	})
	n, _ := slices.BinarySearchFunc(b.rows, before, func(r heldRow, at schemas.Millis) int { return cmp.Compare(r.at, at) })
	if len(b.rows)-n > maxRows {
		n = len(b.rows) - maxRows/2
	}
	for _, r := range b.rows[:n] {
		if err := b.put(r.row); err != nil {
			return err
		}
	}
	b.rows = slices.Delete(b.rows, 0, n)
	b.enough = len(b.rows) + sortRows + min(len(b.rows), maxRows/4)
	return nil
}

func (b *reorderBuffer) put(e *store.Entry) error {
	if b.last != nil {
		switch c := b.order(e, b.last); {
		case c == 0:
			b.doubles++
			return nil
		case c < 0:
			b.late++
		}
	}
	b.last = e
	return b.emit(e)
}
