package output

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/schemas"
)

// place is where columns are.
type place bool

const (
	inTable place = false
	inCSV   place = true
)

func heads(columns []column, where place) (all []string) {
	for _, c := range columns {
		if head := c.in(where); head != "" {
			all = append(all, head)
		}
	}
	return all
}

// in is the head of the column; empty: it is not there.
func (c column) in(where place) string {
	if where == inCSV {
		return c.name
	}
	return c.head
}

func cells(columns []column, where place, row any) (all []string) {
	for _, c := range columns {
		if c.in(where) != "" {
			all = append(all, cell(c.value(row), where))
		}
	}
	return all
}

// cell is a value as text.
func cell(value any, where place) string {
	switch v := value.(type) {
	case string:
		if where == inCSV {
			return replay.MarkedText(v)
		}
		return v
	case schemas.Millis:
		switch {
		case where == inTable:
			return Instant(v)
		case v == 0:
			return ""
		}
		return v.String()
	case []string:
		if where == inCSV {
			return replay.MarkedText(strings.Join(v, "|"))
		}
		return strings.Join(v, ", ")
	}
	if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		return cell(v.Elem().Interface(), where)
	}
	return fmt.Sprint(value)
}
