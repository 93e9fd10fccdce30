package store

import "github.com/stillhere/stillhere/schemas"

var unspecified = schemas.CauseWord(0)

// ParseWords sets the states and the cause of t from the words in the stores.
func ParseWords(t *schemas.Transition, from, to, cause string) error {
	var err error
	if t.From, err = schemas.ParseState("from_state", from); err != nil {
		return err
	}
	if t.To, err = schemas.ParseState("to_state", to); err != nil {
		return err
	}
	t.Cause, err = ParseCause(cause)
	return err
}

// ParseCause reads the word of a cause; 0 for one that the writing program did not know.
func ParseCause(word string) (schemas.Cause, error) {
	if word == unspecified {
		return 0, nil
	}
	return schemas.ParseCause("cause", word)
}
