package pgstore

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stillhere/stillhere/lastseen/store"
)

// SQLSTATEs of a table and a column that are not there.
const (
	undefinedTable  = "42P01"
	undefinedColumn = "42703"
)

// uniqueViolation is the SQLSTATE of a row that is there already.
const uniqueViolation = "23505"

// classify marks the errors that will not go away by trying again. Classes of
// SQLSTATE: 0A feature not supported, 22 data, 23 constraint, 42 syntax, names
// and rights. Everything else (connection 08, deadlock and serialization 40,
// resources 53, operator 57, read only 25006, lock timeout 55P03 ...) may pass.
func classify(err error) error {
	var answer *pgconn.PgError
	if errors.As(err, &answer) && (answer.Code == undefinedTable || answer.Code == undefinedColumn) {
		return fmt.Errorf("%w: %w; \"stillhere migrate\" makes what is missing", store.ErrRefused, err)
	}
	switch class(err) {
	case "0A", "22", "23", "42":
		return fmt.Errorf("%w: %w", store.ErrRefused, err)
	}
	return err
}

// class is the first two characters of the SQLSTATE, empty when the server did
// not say one.
func class(err error) string {
	var answer *pgconn.PgError
	if errors.As(err, &answer) && len(answer.Code) == 5 {
		return answer.Code[:2]
	}
	return ""
}

func isUniqueViolation(err error) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code == uniqueViolation
}

// outcomeUnknown tells whether after this error of a commit the transaction may
// have gone through: the server did not answer.
func outcomeUnknown(err error) bool {
	var answer *pgconn.PgError
	return !errors.As(err, &answer) && !pgconn.SafeToRetry(err)
}
