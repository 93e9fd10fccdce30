//go:build !crashpoints

package stream

// crashPoint is where tests built with the tag crashpoints may kill the process.
func crashPoint(string) {}
