package pgstore

import (
	"testing"

	"github.com/stillhere/stillhere/lastseen/store/storetest"
)

func TestPostgresKeepsTheStoreContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Store { return newStore(t) })
}
