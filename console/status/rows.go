package status

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/stillhere/stillhere/console"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/output"
)

// Rows writes a table of overviews. In all formats but the table each row has the instant of the overview.
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
		return newRows(out, format, func(o *Overview) []console.Instance { return o.Instances }, instanceColumns)
	case "partitions":
		return newRows(out, format, func(o *Overview) []console.Partition { return o.Partitions }, partitionColumns)
	case "groups":
		return newRows(out, format, func(o *Overview) []console.Group { return o.Groups }, groupColumns)
	case "gateways":
		return newRows(out, format, func(o *Overview) []console.Gateway { return o.Gateways }, gatewayColumns)
	}
	return nil, fmt.Errorf("there is no table %q", table)
}

// row is a row of an overview's table.
type row[T any] struct {
	at schemas.Millis
	of T
}

// MarshalJSON writes the fields of the row after the instant.
func (r row[T]) MarshalJSON() ([]byte, error) {
	at, _ := r.at.MarshalJSON() // never fails
	fields, err := json.Marshal(r.of)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"at":%s,%s`, at, fields[1:]), nil
}

type rows[T any] struct {
	*output.Writer[row[T]]
	of func(*Overview) []T
}

func newRows[T any](out io.Writer, format string, of func(*Overview) []T, columns []output.Column[row[T]]) (Rows, error) {
	at := output.Column[row[T]]{Name: "at", Value: func(r row[T]) any { return r.at }}
	w, err := output.NewWriter(out, format, append([]output.Column[row[T]]{at}, columns...))
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
	{Name: "role", Head: "ROLE", Value: func(r row[console.Instance]) any { return r.of.Role }},
	{Name: "instance", Head: "INSTANCE", Value: func(r row[console.Instance]) any { return r.of.Instance }},
	{Name: "version", Head: "VERSION", Value: func(r row[console.Instance]) any { return r.of.Version }},
	{Name: "host", Head: "HOST", Value: func(r row[console.Instance]) any { return r.of.Host }},
	{Name: "started_at", Head: "STARTED (UTC)", Value: func(r row[console.Instance]) any { return r.of.StartedAt }},
	{Name: "ready", Head: "READY", Value: func(r row[console.Instance]) any { return r.of.Ready }},
}

var partitionColumns = []output.Column[row[console.Partition]]{
	{Name: "partition", Head: "PARTITION", Value: func(r row[console.Partition]) any { return r.of.Partition }},
	{Name: "owner", Head: "OWNER", Value: func(r row[console.Partition]) any { return r.of.Owner }},
	{Name: "phase", Head: "PHASE", Value: func(r row[console.Partition]) any { return r.of.Phase }},
	{Name: "lag_records", Head: "LAG", Value: func(r row[console.Partition]) any { return r.of.LagRecords }},
	{Name: "lag_seconds", Value: func(r row[console.Partition]) any { return r.of.LagSeconds }},
	{Name: "watermark_age_seconds", Value: func(r row[console.Partition]) any { return r.of.WatermarkAgeSeconds }},
	{Head: "BEHIND", Value: func(r row[console.Partition]) any { return seconds(r.of.LagSeconds) }},
	{Head: "READS' AGE", Value: func(r row[console.Partition]) any { return seconds(r.of.WatermarkAgeSeconds) }},
}

var groupColumns = []output.Column[row[console.Group]]{
	{Name: "group", Head: "GROUP", Value: func(r row[console.Group]) any { return r.of.Group }},
	{Name: "role", Value: func(r row[console.Group]) any { return r.of.Role }},
	{Name: "state", Head: "STATE", Value: func(r row[console.Group]) any { return r.of.State }},
	{Name: "lag_records", Head: "LAG", Value: func(r row[console.Group]) any { return r.of.LagRecords }},
	{Name: "members", Value: func(r row[console.Group]) any { return members(r.of, "%[1]s") }},
	{Head: "MEMBERS", Value: func(r row[console.Group]) any { return members(r.of, "%s (%d)") }},
}

// members are the members of a group in a format for the instance and the number of its partitions.
func members(g console.Group, format string) []string {
	words := make([]string, len(g.Members))
	for i, m := range g.Members {
		words[i] = fmt.Sprintf(format, m.Instance, len(m.Partitions))
	}
	return words
}

var gatewayColumns = []output.Column[row[console.Gateway]]{
	{Name: "gateway", Head: "GATEWAY", Value: func(r row[console.Gateway]) any { return r.of.Gateway }},
	{Name: "state", Head: "STATE", Value: func(r row[console.Gateway]) any { return r.of.State }},
	{Name: "users", Head: "USERS", Value: func(r row[console.Gateway]) any { return r.of.Users }},
	{Name: "last_seen_at", Head: "LAST SEEN (UTC)", Value: func(r row[console.Gateway]) any { return r.of.LastSeenAt }},
	{Name: "epoch", Head: "STARTED (UTC)", Value: func(r row[console.Gateway]) any { return r.of.Epoch }},
}

// WriteTable writes one of the tables for people.
func WriteTable(w io.Writer, o *Overview, name string) error {
	table, err := NewRows(w, output.TableFormat, name)
	if err != nil {
		return err
	}
	if err := table.Write(o); err != nil {
		return err
	}
	return table.Close()
}
