package sqlitestore

import (
	"path/filepath"
	"testing"

	"github.com/stillhere/stillhere/lastseen/store/storetest"
)

func TestSQLiteGivesDataTeamsWhatTheyAskFor(t *testing.T) {
	t.Parallel()
	storetest.RunArchive(t, func(t *testing.T) storetest.Archive {
		return newStore(t, filepath.Join(t.TempDir(), "stillhere.db"))
	})
}
