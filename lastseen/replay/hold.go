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
	// heldRows bounds what is held back, about 120 bytes each. When there is more,
	// half is let go early.
	heldRows = 1 << 20
)

// hold puts rows in order that come nearly so.
type hold struct {
	back schemas.Millis // how far the newest must be ahead of a row that goes
	emit func(*store.Entry) error

	rows, spare []store.Entry
	keys        []holdKey
	enough      int // rows at which to sort next
	last        store.Entry
	any         bool
	late        int64 // rows that came after one that belongs behind them
	doubles     int64
}

// holdKey is what sorting looks at first.
type holdKey struct {
	at  schemas.Millis
	row int32
}

func newHold(back schemas.Millis, emit func(*store.Entry) error) *hold {
	return &hold{back: back, emit: emit, enough: sortRows}
}

// take takes the next row; latest is how far all sources have come.
func (h *hold) take(e *store.Entry, latest schemas.Millis) error {
	h.rows = append(h.rows, *e)
	if len(h.rows) < h.enough {
		return nil
	}
	return h.release(latest - h.back)
}

// flush lets everything go.
func (h *hold) flush() error { return h.release(1<<63 - 1) }

// release lets go what is before the instant.
func (h *hold) release(before schemas.Millis) error {
	h.keys = h.keys[:0]
	for i := range h.rows {
		h.keys = append(h.keys, holdKey{h.rows[i].At, int32(i)})
	}
	slices.SortFunc(h.keys, func(a, b holdKey) int {
		if c := cmp.Compare(a.at, b.at); c != 0 {
			return c
		}
		return h.rows[a.row].Compare(&h.rows[b.row])
	})
	n, _ := slices.BinarySearchFunc(h.keys, before, func(k holdKey, at schemas.Millis) int { return cmp.Compare(k.at, at) })
	if len(h.rows)-n > heldRows {
		n = len(h.rows) - heldRows/2
	}
	for _, k := range h.keys[:n] {
		if err := h.put(&h.rows[k.row]); err != nil {
			return err
		}
	}
	h.spare = h.spare[:0]
	for _, k := range h.keys[n:] {
		h.spare = append(h.spare, h.rows[k.row])
	}
	h.rows, h.spare = h.spare, h.rows
	h.enough = len(h.rows) + sortRows + min(len(h.rows), heldRows/4)
	return nil
}

func (h *hold) put(e *store.Entry) error {
	if h.any {
		switch c := e.Compare(&h.last); {
		case c == 0:
			h.doubles++
			return nil
		case c < 0:
			h.late++
		}
	}
	h.last, h.any = *e, true
	return h.emit(e)
}
