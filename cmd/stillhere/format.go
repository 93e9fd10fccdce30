package main

import (
	"bufio"
	"errors"
	"fmt"
	"iter"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/tools/output"
)

// outputHelp is what every --output says of itself.
const outputHelp = "Output format: table, json (one document), jsonl (a row a line), csv or parquet. Tables are for people, with times in UTC."

// outputFlag is the flag of commands that print rows. Those with fewer formats, or others, have one of their own.
type outputFlag struct {
	Output string `help:"${output}" type:"format" takes:"table,json,jsonl,csv,parquet" default:"table" env:"-"`
}

// AfterApply is called by the parser.
func (f *outputFlag) AfterApply() error { return output.Check(os.Stdout, f.Output) }

// printRows prints rows on standard output.
func printRows[R any](format string, rows iter.Seq2[R, error], columns []output.Column[R]) error {
	return output.Write(os.Stdout, format, rows, columns)
}

// printObject prints one object that has rows: JSON as the object, other formats as the rows.
func printObject[R any](format string, object any, rows iter.Seq2[R, error], columns []output.Column[R]) error {
	if format == output.JSON {
		return printJSON(object)
	}
	return printRows(format, rows, columns)
}

// linesFlag is the flag of commands that print plain lines for shells, unless another format is asked for.
type linesFlag struct {
	Output string `help:"${output} Default: lines without a head, for shells." type:"format" takes:"table,json,jsonl,csv,parquet" env:"-"`
}

// AfterApply is called by the parser.
func (f *linesFlag) AfterApply() error { return output.Check(os.Stdout, f.Output) }

// printLinesOr prints rows in the format of the flag, else as lines. A line shows texts of somebody with output.Shown.
func printLinesOr[R any](f linesFlag, rows iter.Seq2[R, error], columns []output.Column[R], line func(R) string) error {
	if f.Output != "" {
		return printRows(f.Output, rows, columns)
	}
	out := bufio.NewWriter(os.Stdout)
	for row, err := range rows {
		if err == nil {
			_, err = fmt.Fprintln(out, line(row))
		}
		if err != nil {
			return errors.Join(err, out.Flush())
		}
	}
	return out.Flush()
}

// rowsOf are values that cannot fail.
func rowsOf[R any](all []R) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// formatMapper reads the format of --output. The tag takes lists what the command can write, and the tag why
// says why it is not all.
func formatMapper(c *kong.DecodeContext, target reflect.Value) error {
	var format string
	if err := c.Scan.PopValueInto("format", &format); err != nil {
		return err
	}
	takes := strings.Split(c.Value.Tag.Get("takes"), ",")
	if !slices.Contains(takes, format) {
		last := len(takes) - 1
		text := fmt.Sprintf("must be %s or %s, is %q", strings.Join(takes[:last], ", "), takes[last], format)
		if why := c.Value.Tag.Get("why"); why != "" && slices.Contains(output.Formats, format) {
			text += ": " + why
		}
		return errors.New(text)
	}
	target.SetString(format)
	return nil
}
