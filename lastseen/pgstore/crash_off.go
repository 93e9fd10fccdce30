//go:build !crashpoints

package pgstore

// crashPoint is where tests built with the tag crashpoints may kill the process.
func crashPoint(string) {}
