// Package sqlite is what the stores with a SQLite file share: opening the file, and checking that it is
// intact. It knows no service's tables.
package sqlite

import (
	"fmt"
	"net/url"
	"time"

	_ "modernc.org/sqlite" // the driver
)

// storeAddress is the file with the settings of every connection of a store. lock is how transactions
// begin: immediate or deferred.
func storeAddress(path, lock string, busy time.Duration) string {
	return address(path, url.Values{
		"_pragma": {"journal_mode(WAL)", "synchronous(NORMAL)", fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()),
			"temp_store(MEMORY)", "cache_size(-65536)",
			"secure_delete(ON)"}, // nothing of an erased user stays in free pages,
		"_txlock": {lock},
	})
}

func address(path string, settings url.Values) string {
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: settings.Encode()}).String()
}
