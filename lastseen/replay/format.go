package replay

import (
	"fmt"
	"io"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
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

// newWriter writes rows R in a format: columns appends those of a line, set makes a row P of
// Parquet.
func newWriter[R, P any](format Format, w io.Writer, columns func(*fields, *R), set func(*R, *P, *texts)) Writer[R] {
	if format == Parquet {
		return newParquetWriter(w, set)
	}
	l := &lineWriter[R]{w: w, columns: columns, fields: fields{buffer: make([]byte, 0, linesFull+4096), format: format}}
	if format == CSV {
		var row R
		l.fields.names = true
		columns(&l.fields, &row)
		l.fields.end()
		l.fields.names = false
	}
	return l
}

// linesFull is when lines are handed on.
const linesFull = 256 << 10

// lineWriter writes rows as lines of text.
type lineWriter[R any] struct {
	w       io.Writer
	columns func(*fields, *R)
	fields  fields
}

func (l *lineWriter[R]) Write(row *R) error {
	l.columns(&l.fields, row)
	l.fields.end()
	if len(l.fields.buffer) < linesFull {
		return nil
	}
	return l.Flush()
}

func (l *lineWriter[R]) Flush() error {
	if len(l.fields.buffer) == 0 {
		return nil
	}
	_, err := l.w.Write(l.fields.buffer)
	l.fields.buffer = l.fields.buffer[:0]
	if err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

func (l *lineWriter[R]) Close() error { return l.Flush() }

const (
	// groupRows is how many rows a row group of a Parquet file has. Files that are
	// written in one go and resumed ones have the same groups.
	groupRows = 512 << 10
	// batchRows is how many rows go to the Parquet writer at a time.
	batchRows = 1024
)

// parquetWriter writes rows to a Parquet file of rows P.
type parquetWriter[R, P any] struct {
	set    func(*R, *P, *texts)
	writer *parquet.GenericWriter[P]
	rows   []P
	texts  texts
	inside int // rows of the group
}

func newParquetWriter[R, P any](w io.Writer, set func(*R, *P, *texts)) *parquetWriter[R, P] {
	return &parquetWriter[R, P]{set: set, rows: make([]P, 0, batchRows), writer: parquet.NewGenericWriter[P](w,
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.DataPageStatistics(false), // the index of the columns has the same
		parquet.CreatedBy("stillhere", "1", ""))}
}

func (c *parquetWriter[R, P]) Write(row *R) error {
	c.rows = c.rows[:len(c.rows)+1]
	c.set(row, &c.rows[len(c.rows)-1], &c.texts)
	return c.writeFull()
}

// writeRow takes a row that was read from a file.
func (c *parquetWriter[R, P]) writeRow(row *P) error {
	c.rows = append(c.rows, *row)
	return c.writeFull()
}

func (c *parquetWriter[R, P]) writeFull() error {
	if len(c.rows) < batchRows {
		return nil
	}
	return c.writeBatch()
}

// writeBatch hands the rows to the Parquet library.
func (c *parquetWriter[R, P]) writeBatch() error {
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
func (c *parquetWriter[R, P]) Flush() error { return nil }

func (c *parquetWriter[R, P]) Close() error {
	if err := c.writeBatch(); err != nil {
		return err
	}
	if err := c.writer.Close(); err != nil {
		return fmt.Errorf("completing the Parquet file: %w", err)
	}
	return nil
}

// texts keeps short texts until it is reset, without an allocation each.
type texts struct{ bytes []byte }

func (t *texts) reset() { t.bytes = make([]byte, 0, max(cap(t.bytes), batchRows*32)) }

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
