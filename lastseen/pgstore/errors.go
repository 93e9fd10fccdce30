package pgstore

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stillhere/stillhere/lastseen/store"
)

// SQLSTATEs.
const (
	undefinedTable  = "42P01"
	undefinedColumn = "42703"
	uniqueViolation = "23505"
)

// classify marks errors that will not pass. SQLSTATE classes: 0A feature not supported, 22 data,
// 23 constraint, 42 syntax, names and rights. All others may pass (connection 08, deadlock and
// serialization 40, resources 53, operator 57, read only 25006, lock timeout 55P03 ...).
func classify(err error) error {
	code := sqlState(err)
	if code == undefinedTable || code == undefinedColumn {
		return fmt.Errorf("%w: %w; \"stillhere migrate\" makes what is missing", store.ErrRefused, err)
	}
	if len(code) == 5 {
		switch code[:2] {
		case "0A", "22", "23", "42":
			return fmt.Errorf("%w: %w", store.ErrRefused, err)
		}
	}
	return err
}

// sqlState is the server's SQLSTATE; empty if the server did not answer.
func sqlState(err error) string {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}

// outcomeUnknown reports whether a commit may have been applied despite err: the server did not
// answer.
func outcomeUnknown(err error) bool {
	var answer *pgconn.PgError
	return !errors.As(err, &answer) && !pgconn.SafeToRetry(err)
}
