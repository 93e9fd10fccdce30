package replay

import (
	"fmt"
	"io"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/stillhere/stillhere/schemas"
)

// Format is how rows are written.
type Format string

// The formats.
const (
	JSONL   Format = "jsonl"
	CSV     Format = "csv"
	Parquet Format = "parquet"
)

// Writer writes rows. One goroutine may use it.
type Writer[R any] interface {
	// Write takes a row, which may be used again when it returns.
	Write(row *R) error
	// Flush hands on what has been taken, as far as the format can.
	Flush() error
	// Close completes what has been written.
	Close() error
}

// appendJSON writes an instant, or null for never.
func (c *clock) appendJSON(dst []byte, m schemas.Millis) []byte {
	if m == 0 {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = c.append(dst, m)
	return append(dst, '"')
}

// appendCSV writes an instant, or nothing for never.
func (c *clock) appendCSV(dst []byte, m schemas.Millis) []byte {
	if m == 0 {
		return dst
	}
	return c.append(dst, m)
}

// linesFull is when lines are handed on.
const linesFull = 256 << 10

// lines writes rows as lines of text.
type lines[R any] struct {
	w      io.Writer
	append func([]byte, *clock, *R) []byte
	buffer []byte
	clock  clock
}

func newLines[R any](w io.Writer, head string, each func([]byte, *clock, *R) []byte) *lines[R] {
	return &lines[R]{w: w, append: each, buffer: append(make([]byte, 0, linesFull+4096), head...)}
}

func (l *lines[R]) Write(row *R) error {
	l.buffer = l.append(l.buffer, &l.clock, row)
	if len(l.buffer) < linesFull {
		return nil
	}
	return l.Flush()
}

func (l *lines[R]) Flush() error {
	if len(l.buffer) == 0 {
		return nil
	}
	_, err := l.w.Write(l.buffer)
	l.buffer = l.buffer[:0]
	if err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

func (l *lines[R]) Close() error { return l.Flush() }

const (
	// groupRows is how many rows a row group of a Parquet file has. Files that are
	// written in one go and resumed ones have the same groups.
	groupRows = 512 << 10
	// columnsRows is how many rows go to the Parquet writer at a time.
	columnsRows = 1024
)

// columns writes rows to a Parquet file of rows P.
type columns[R, P any] struct {
	set    func(*R, *P, *texts)
	writer *parquet.GenericWriter[P]
	rows   []P
	texts  texts
	inside int // rows of the group
}

func newColumns[R, P any](w io.Writer, set func(*R, *P, *texts)) *columns[R, P] {
	return &columns[R, P]{set: set, rows: make([]P, 0, columnsRows), writer: parquet.NewGenericWriter[P](w,
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.DataPageStatistics(false), // the index of the columns has the same
		parquet.CreatedBy("stillhere", "1", ""))}
}

func (c *columns[R, P]) Write(row *R) error {
	c.rows = c.rows[:len(c.rows)+1]
	c.set(row, &c.rows[len(c.rows)-1], &c.texts)
	if len(c.rows) < columnsRows {
		return nil
	}
	return c.hand()
}

// hand gives the rows to the writer.
func (c *columns[R, P]) hand() error {
	if _, err := c.writer.Write(c.rows); err != nil {
		return fmt.Errorf("writing Parquet: %w", err)
	}
	c.inside += len(c.rows)
	c.rows = c.rows[:0]
	c.texts.reset()
	if c.inside < groupRows {
		return nil
	}
	c.inside = 0
	if err := c.writer.Flush(); err != nil {
		return fmt.Errorf("writing Parquet: %w", err)
	}
	return nil
}

// Flush does nothing: rows become readable with the file's footer.
func (c *columns[R, P]) Flush() error { return nil }

func (c *columns[R, P]) Close() error {
	if err := c.hand(); err != nil {
		return err
	}
	if err := c.writer.Close(); err != nil {
		return fmt.Errorf("completing the Parquet file: %w", err)
	}
	return nil
}

// texts keeps short texts until it is reset, without an allocation each.
type texts struct{ bytes []byte }

func (t *texts) reset() { t.bytes = make([]byte, 0, max(cap(t.bytes), columnsRows*32)) }

func (t *texts) add(text []byte) string {
	if cap(t.bytes)-len(t.bytes) < len(text) {
		t.reset()
	}
	from := len(t.bytes)
	t.bytes = append(t.bytes, text...)
	if len(text) == 0 {
		return ""
	}
	// The bytes are not written again before the reset, which takes new ones.
	return unsafe.String(&t.bytes[from], len(text))
}

func listKinds() (all [64][]string) {
	for set := range all {
		all[set] = schemas.KindSet(set).Words()
	}
	return all
}
