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
	// maxRows bounds the buffer, about 120 bytes a row. When there are more, half of them go out
	// early.
	maxRows = 1 << 20
)

// reorderBuffer puts rows in order that come nearly so.
type reorderBuffer struct {
	back schemas.Millis // how far the newest must be ahead of a row that goes
	emit func(*store.Entry) error

	chunks  [][]store.Entry // the rows, in chunks of chunkRows that stay where they are
	free    []int32         // places in chunks without a row
	keys    []rowKey        // of the rows in the buffer
	enough  int             // rows at which to sort next
	last    store.Entry
	started bool  // last is set
	late    int64 // rows that came after one that belongs behind them
	doubles int64
}

// chunkRows is how many rows are made room for at a time.
const chunkRows = 4096

// rowKey is what sorting looks at first, and where the row is.
type rowKey struct {
	at  schemas.Millis
	row int32
}

func newReorderBuffer(back schemas.Millis, emit func(*store.Entry) error) *reorderBuffer {
	return &reorderBuffer{back: back, emit: emit, enough: sortRows}
}

// row is the row at a place.
func (b *reorderBuffer) row(place int32) *store.Entry {
	return &b.chunks[place/chunkRows][place%chunkRows]
}

// take takes the next row; latest is how far all sources have come.
func (b *reorderBuffer) take(e *store.Entry, latest schemas.Millis) error {
	if len(b.free) == 0 {
		b.grow()
	}
	place := b.free[len(b.free)-1]
	b.free = b.free[:len(b.free)-1]
	*b.row(place) = *e
	b.keys = append(b.keys, rowKey{e.At, place})
	if len(b.keys) < b.enough {
		return nil
	}
	return b.release(latest - b.back)
}

// grow makes room for more rows.
func (b *reorderBuffer) grow() {
	first := int32(len(b.chunks) * chunkRows)
	b.chunks = append(b.chunks, make([]store.Entry, chunkRows))
	for place := first + chunkRows - 1; place >= first; place-- { // so that neighbours are taken one after the other
		b.free = append(b.free, place)
	}
}

// flush emits all rows.
func (b *reorderBuffer) flush() error { return b.release(1<<63 - 1) }

// release emits the rows before the instant.
func (b *reorderBuffer) release(before schemas.Millis) error {
	slices.SortFunc(b.keys, func(x, y rowKey) int {
		if c := cmp.Compare(x.at, y.at); c != 0 {
			return c
		}
		return b.row(x.row).Compare(b.row(y.row))
	})
	n, _ := slices.BinarySearchFunc(b.keys, before, func(k rowKey, at schemas.Millis) int { return cmp.Compare(k.at, at) })
	if len(b.keys)-n > maxRows {
		n = len(b.keys) - maxRows/2
	}
	for _, k := range b.keys[:n] {
		if err := b.put(b.row(k.row)); err != nil {
			return err
		}
		b.free = append(b.free, k.row)
	}
	b.keys = b.keys[:copy(b.keys, b.keys[n:])]
	b.enough = len(b.keys) + sortRows + min(len(b.keys), maxRows/4)
	return nil
}

func (b *reorderBuffer) put(e *store.Entry) error {
	if b.started {
		switch c := e.Compare(&b.last); {
		case c == 0:
			b.doubles++
			return nil
		case c < 0:
			b.late++
		}
	}
	b.last, b.started = *e, true
	return b.emit(e)
}
