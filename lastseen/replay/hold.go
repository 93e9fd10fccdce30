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

	kept    [][]store.Entry // the rows, in pieces of keptRows that stay where they are
	free    []int32         // places in kept without a row
	keys    []holdKey       // of the rows that are held
	enough  int             // rows at which to sort next
	last    store.Entry
	any     bool
	late    int64 // rows that came after one that belongs behind them
	doubles int64
}

// keptRows is how many rows are made room for at a time.
const keptRows = 4096

// holdKey is what sorting looks at first, and where the row is.
type holdKey struct {
	at  schemas.Millis
	row int32
}

func newHold(back schemas.Millis, emit func(*store.Entry) error) *hold {
	return &hold{back: back, emit: emit, enough: sortRows}
}

// row is the row at a place.
func (h *hold) row(place int32) *store.Entry { return &h.kept[place/keptRows][place%keptRows] }

// take takes the next row; latest is how far all sources have come.
func (h *hold) take(e *store.Entry, latest schemas.Millis) error {
	if len(h.free) == 0 {
		h.grow()
	}
	place := h.free[len(h.free)-1]
	h.free = h.free[:len(h.free)-1]
	*h.row(place) = *e
	h.keys = append(h.keys, holdKey{e.At, place})
	if len(h.keys) < h.enough {
		return nil
	}
	return h.release(latest - h.back)
}

// grow makes room for more rows.
func (h *hold) grow() {
	first := int32(len(h.kept) * keptRows)
	h.kept = append(h.kept, make([]store.Entry, keptRows))
	for place := first + keptRows - 1; place >= first; place-- { // so that neighbours are taken one after the other
		h.free = append(h.free, place)
	}
}

// flush lets everything go.
func (h *hold) flush() error { return h.release(1<<63 - 1) }

// release lets go what is before the instant.
func (h *hold) release(before schemas.Millis) error {
	slices.SortFunc(h.keys, func(a, b holdKey) int {
		if c := cmp.Compare(a.at, b.at); c != 0 {
			return c
		}
		return h.row(a.row).Compare(h.row(b.row))
	})
	n, _ := slices.BinarySearchFunc(h.keys, before, func(k holdKey, at schemas.Millis) int { return cmp.Compare(k.at, at) })
	if len(h.keys)-n > heldRows {
		n = len(h.keys) - heldRows/2
	}
	for _, k := range h.keys[:n] {
		if err := h.put(h.row(k.row)); err != nil {
			return err
		}
		h.free = append(h.free, k.row)
	}
	h.keys = h.keys[:copy(h.keys, h.keys[n:])]
	h.enough = len(h.keys) + sortRows + min(len(h.keys), heldRows/4)
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
