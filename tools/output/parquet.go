package output

import (
	"fmt"
	"io"
	"reflect"

	"github.com/parquet-go/parquet-go"

	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/schemas"
)

// field is a column of a Parquet file.
type field struct {
	Type reflect.Type // of the Go field
	tag  string       // Parquet's encoding
}

var instants = reflect.TypeFor[schemas.Millis]()

// fieldOf is the field of a column whose values are like zero: an instant is UTC milliseconds, null where it is 0; a
// pointer is null where it is nil; numbers have 64 bits.
func fieldOf(name string, zero any) (field, error) {
	t := reflect.TypeOf(zero)
	switch {
	case t == instants:
		return field{reflect.TypeFor[int64](), ",optional,timestamp(millisecond)"}, nil
	case t == reflect.TypeFor[[]string]():
		return field{t, ",list"}, nil
	case t != nil && t.Kind() == reflect.Pointer:
		of, err := fieldOf(name, reflect.Zero(t.Elem()).Interface())
		if err != nil || of.tag != "" {
			break
		}
		return field{reflect.PointerTo(of.Type), ",optional"}, nil
	case t == nil:
	case t.Kind() == reflect.String:
		return field{reflect.TypeFor[string](), ""}, nil
	case t.Kind() == reflect.Bool:
		return field{reflect.TypeFor[bool](), ""}, nil
	case reflect.Zero(t).CanFloat():
		return field{reflect.TypeFor[float64](), ""}, nil
	case t.Kind() == reflect.Uint64:
		return field{reflect.TypeFor[uint64](), ""}, nil
	case reflect.Zero(t).CanInt(), reflect.Zero(t).CanUint():
		return field{reflect.TypeFor[int64](), ""}, nil
	}
	return field{}, fmt.Errorf("the column %s has values %T, which Parquet does not have", name, zero)
}

// newParquet writes rows by the columns that have names.
func newParquet(out io.Writer, columns []column, zero any) (formatted, error) {
	var fields []reflect.StructField
	var values []func(any) any
	for _, c := range columns {
		if c.name == "" {
			continue
		}
		f, err := fieldOf(c.name, c.value(zero))
		if err != nil {
			return formatted{}, err
		}
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("F%d", len(fields)), Type: f.Type,
			Tag: reflect.StructTag(fmt.Sprintf(`parquet:"%s%s"`, c.name, f.tag))})
		values = append(values, c.value)
	}
	rows := reflect.StructOf(fields)
	w := replay.NewParquet(out, parquet.NewSchema("row", parquet.SchemaOf(reflect.New(rows).Interface())), func(value, row *any) {
		made := reflect.New(rows).Elem()
		for i, of := range values {
			set(made.Field(i), reflect.ValueOf(of(*value)))
		}
		*row = made.Interface()
	})
	return formatted{func(row any) error { return w.Write(&row) }, w.Flush, w.Close}, nil
}

// set sets a field to a value of its column.
func set(to, value reflect.Value) {
	if value.Kind() != reflect.Pointer {
		to.Set(value.Convert(to.Type()))
		return
	}
	if !value.IsNil() {
		to.Set(reflect.New(to.Type().Elem()))
		set(to.Elem(), value.Elem())
	}
}
