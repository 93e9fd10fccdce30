package status

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/stillhere/stillhere/console"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/output"
)

// Rows writes a table of overviews for programs, with the instant of the overview in each row.
type Rows interface {
	Write(o *Overview) error
	// Flush writes what was taken, as far as the format can.
	Flush() error
	// Close completes what was written. It does not close the underlying writer.
	Close() error
}

// NewRows writes a table, which is one of instances, partitions, groups and gateways, in a format.
func NewRows(out io.Writer, format, table string) (Rows, error) {
	switch table {
	case "instances":
		return newRows(out, format, func(o *Overview) []console.Instance { return o.Instances }, instanceColumns, func(r row[console.Instance]) any {
			return struct {
				At schemas.Millis `json:"at"`
				console.Instance
			}{r.at, r.of}
		})
	case "partitions":
		return newRows(out, format, func(o *Overview) []console.Partition { return o.Partitions }, partitionColumns, func(r row[console.Partition]) any {
			return struct {
				At schemas.Millis `json:"at"`
				console.Partition
			}{r.at, r.of}
		})
	case "groups":
		return newRows(out, format, func(o *Overview) []console.Group { return o.Groups }, groupColumns, func(r row[console.Group]) any {
			return struct {
				At schemas.Millis `json:"at"`
				console.Group
			}{r.at, r.of}
		})
	case "gateways":
		return newRows(out, format, func(o *Overview) []console.Gateway { return o.Gateways }, gatewayColumns, func(r row[console.Gateway]) any {
			return struct {
				At schemas.Millis `json:"at"`
				console.Gateway
			}{r.at, r.of}
		})
	}
	return nil, fmt.Errorf("there is no table %q", table)
}

// row is a row of an overview's table.
type row[T any] struct {
	at schemas.Millis
	of T
}

type rows[T any] struct {
	*output.Writer[row[T]]
	of func(*Overview) []T
}

func newRows[T any](out io.Writer, format string, of func(*Overview) []T, columns []output.Column[row[T]],
	object func(row[T]) any) (Rows, error) {
	at := output.Column[row[T]]{Name: "at", Value: func(r row[T]) any { return r.at }}
	w, err := output.NewWriter(out, format, append([]output.Column[row[T]]{at}, columns...), object)
	if err != nil {
		return nil, err
	}
	return rows[T]{w, of}, nil
}

// Write takes the rows of an overview.
func (r rows[T]) Write(o *Overview) error {
	for _, v := range r.of(o) {
		if err := r.Writer.Write(row[T]{o.At, v}); err != nil {
			return err
		}
	}
	return nil
}

var instanceColumns = []output.Column[row[console.Instance]]{
	{Name: "role", Value: func(r row[console.Instance]) any { return r.of.Role }},
	{Name: "instance", Value: func(r row[console.Instance]) any { return r.of.Instance }},
	{Name: "version", Value: func(r row[console.Instance]) any { return r.of.Version }},
	{Name: "host", Value: func(r row[console.Instance]) any { return r.of.Host }},
	{Name: "started_at", Value: func(r row[console.Instance]) any { return r.of.StartedAt }},
	{Name: "ready", Value: func(r row[console.Instance]) any { return r.of.Ready }},
}

var partitionColumns = []output.Column[row[console.Partition]]{
	{Name: "partition", Value: func(r row[console.Partition]) any { return r.of.Partition }},
	{Name: "owner", Value: func(r row[console.Partition]) any { return r.of.Owner }},
	{Name: "phase", Value: func(r row[console.Partition]) any { return r.of.Phase }},
	{Name: "lag_records", Value: func(r row[console.Partition]) any { return r.of.LagRecords }},
	{Name: "lag_seconds", Value: func(r row[console.Partition]) any { return r.of.LagSeconds }},
	{Name: "watermark_age_seconds", Value: func(r row[console.Partition]) any { return r.of.WatermarkAgeSeconds }},
}

var groupColumns = []output.Column[row[console.Group]]{
	{Name: "group", Value: func(r row[console.Group]) any { return r.of.Group }},
	{Name: "role", Value: func(r row[console.Group]) any { return r.of.Role }},
	{Name: "state", Value: func(r row[console.Group]) any { return r.of.State }},
	{Name: "lag_records", Value: func(r row[console.Group]) any { return r.of.LagRecords }},
	{Name: "members", Value: func(r row[console.Group]) any {
		names := make([]string, len(r.of.Members))
		for i, m := range r.of.Members {
			names[i] = m.Instance
		}
		return names
	}},
}

var gatewayColumns = []output.Column[row[console.Gateway]]{
	{Name: "gateway", Value: func(r row[console.Gateway]) any { return r.of.Gateway }},
	{Name: "state", Value: func(r row[console.Gateway]) any { return r.of.State }},
	{Name: "users", Value: func(r row[console.Gateway]) any { return r.of.Users }},
	{Name: "last_seen_at", Value: func(r row[console.Gateway]) any { return r.of.LastSeenAt }},
	{Name: "epoch", Value: func(r row[console.Gateway]) any { return r.of.Epoch }},
}

// WriteTable writes one of the tables for people.
func WriteTable(w io.Writer, o *Overview, name string) error {
	for _, s := range []struct {
		name  string
		table func(*Overview) table
	}{{"partitions", partitions}, {"gateways", gateways}, {"instances", instances}, {"groups", groups}} {
		if s.name == name {
			out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			s.table(o).write(out)
			return out.Flush()
		}
	}
	return fmt.Errorf("there is no table %q", name)
}
