package pgstore

import (
	"testing"

	"github.com/stillhere/stillhere/lastseen/store/storetest"
)

func TestPostgresGivesDataTeamsWhatTheyAskFor(t *testing.T) {
	t.Parallel()
	storetest.RunArchive(t, func(t *testing.T) storetest.Archive { return newStore(t) })
}
