package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// formatMapper reads the format of --output. The tag takes lists what the command can write. Older versions called a
// table text.
func formatMapper(c *kong.DecodeContext, target reflect.Value) error {
	var format string
	if err := c.Scan.PopValueInto("format", &format); err != nil {
		return err
	}
	takes := strings.Split(c.Value.Tag.Get("takes"), ",")
	if format == "text" && slices.Contains(takes, "table") {
		format = "table"
	}
	if !slices.Contains(takes, format) {
		last := len(takes) - 1
		return fmt.Errorf("must be %s or %s, is %q", strings.Join(takes[:last], ", "), takes[last], format)
	}
	target.SetString(format)
	return nil
}
