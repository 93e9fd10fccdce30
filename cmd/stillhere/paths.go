package main

import (
	"reflect"

	"github.com/alecthomas/kong"
)

// pathMapper reads the path of a file. Unlike kong's own it leaves an empty one
// empty: a variable of the environment that is there and empty, as compose files
// have them, means no file and not the folder that one is in.
func pathMapper(c *kong.DecodeContext, target reflect.Value) error {
	var path string
	if err := c.Scan.PopValueInto("file", &path); err != nil {
		return err
	}
	if path != "" && path != "-" {
		path = kong.ExpandPath(path)
	}
	target.SetString(path)
	return nil
}
