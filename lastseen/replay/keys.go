package replay

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/stillhere/stillhere/lastseen/store"
)

// parquetKeys reads what identifies the changes of a Parquet file.
func parquetKeys[P any](name string, keyOf func(*P) store.Entry) (keys []store.Entry, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	opened, err := parquet.OpenFile(file, info.Size())
	if err != nil {
		return nil, err
	}
	if err := checkColumns[P](opened); err != nil {
		return nil, err
	}
	reader := parquet.NewGenericReader[P](opened)
	defer func() { err = errors.Join(err, reader.Close()) }()
	rows := make([]P, batchRows)
	for {
		n, err := reader.Read(rows)
		for i := range rows[:n] {
			keys = append(keys, keyOf(&rows[i]))
		}
		if errors.Is(err, io.EOF) {
			return keys, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// lineKeys reads what identifies the changes of lines. Event ids are among it.
func lineKeys(format Format, columns Columns, in io.Reader) (keys []store.Entry, err error) {
	head := headOf(columns)
	if format == CSV {
		reader := csv.NewReader(in)
		for first := true; ; first = false {
			fields, err := reader.Read()
			switch {
			case errors.Is(err, io.EOF):
				return keys, nil
			case err != nil:
				return nil, noReplay(err)
			case first:
				if !slices.Equal(fields, head) {
					return nil, fmt.Errorf("the file has the columns %v and the replay %v", fields, head)
				}
				continue
			}
			e, err := keyIn(fields, head, columns)
			if err != nil {
				return nil, noReplay(err)
			}
			keys = append(keys, e)
		}
	}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return keys, nil
		case err != nil:
			return nil, noReplay(err)
		}
		e, err := parseKey(format, columns, line, head)
		if err != nil {
			return nil, noReplay(err)
		}
		keys = append(keys, e)
	}
}
