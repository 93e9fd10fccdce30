// Package sqlite is what the stores that keep their tables in a SQLite file have in
// common: how the file is named to the driver, and whether it is whole. It knows no room
// and none of their tables.
package sqlite

import (
	"fmt"
	"net/url"
	"time"

	_ "modernc.org/sqlite" // the driver
)

// Address is the file with the settings that every connection of a store must have. lock
// is how transactions begin: immediate or deferred. busy is how long to wait for another
// connection's lock.
func Address(path, lock string, busy time.Duration) string {
	return address(path, url.Values{
		"_pragma": {"journal_mode(WAL)", "synchronous(NORMAL)", fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()),
			"temp_store(MEMORY)", "cache_size(-65536)"},
		"_txlock": {lock},
	})
}

func address(path string, settings url.Values) string {
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: settings.Encode()}).String()
}
