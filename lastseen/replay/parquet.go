package replay

import (
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

const (
	// groupRows is how many rows a row group of a Parquet file has.
	groupRows = 512 << 10
	// batchRows is how many rows go to the Parquet writer at a time.
	batchRows = 1024
)

// parquetWriter writes values R to a Parquet file of rows P.
type parquetWriter[R, P any] struct {
	set    func(*R, *P)
	writer *parquet.GenericWriter[P]
	values []R // copies that rows point into
	rows   []P
}

// NewParquet writes values R to a Parquet file of a schema that is made at run time, as the writers of this package
// write theirs. set makes a row, of the Go type of the schema, from a value.
func NewParquet[R any](w io.Writer, schema *parquet.Schema, set func(value *R, row *any)) Writer[R] {
	return newParquetWriter(w, set, schema)
}

func newParquetWriter[R, P any](w io.Writer, set func(*R, *P), more ...parquet.WriterOption) *parquetWriter[R, P] {
	options := append(more,
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.DataPageStatistics(false), // the index of the columns has the same
		parquet.MaxRowsPerRowGroup(groupRows),
		parquet.CreatedBy("stillhere", "1", ""))
	return &parquetWriter[R, P]{set: set, values: make([]R, 0, batchRows), rows: make([]P, 0, batchRows),
		writer: parquet.NewGenericWriter[P](w, options...)}
}

func (c *parquetWriter[R, P]) Write(value *R) error {
	c.values, c.rows = append(c.values, *value), c.rows[:len(c.rows)+1]
	c.set(&c.values[len(c.values)-1], &c.rows[len(c.rows)-1])
	if len(c.rows) < batchRows {
		return nil
	}
	return c.writeBatch()
}

func (c *parquetWriter[R, P]) writeBatch() error {
	if _, err := c.writer.Write(c.rows); err != nil {
		return fmt.Errorf("writing Parquet: %w", err)
	}
	c.rows, c.values = c.rows[:0], c.values[:0]
	return nil
}

// Flush does nothing: rows become readable with the file's footer.
func (c *parquetWriter[R, P]) Flush() error { return nil }

// endGroup ends the row group, whose bytes are written.
func (c *parquetWriter[R, P]) endGroup() error {
	if err := c.writeBatch(); err != nil {
		return err
	}
	if err := c.writer.Flush(); err != nil {
		return fmt.Errorf("writing Parquet: %w", err)
	}
	return nil
}

func (c *parquetWriter[R, P]) Close() error {
	if err := c.writeBatch(); err != nil {
		return err
	}
	if err := c.writer.Close(); err != nil {
		return fmt.Errorf("completing the Parquet file: %w", err)
	}
	return nil
}
