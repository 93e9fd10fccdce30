package store

import "github.com/stillhere/stillhere/schemas"

// unspecified is the word for a cause that this program does not know.
var unspecified = schemas.CauseWord(0)

// ParseWords sets the states and the cause of t from the words in which the
// stores keep them.
func ParseWords(t *schemas.Transition, from, to, cause string) error {
	var err error
	if t.From, err = schemas.ParseState("from_state", from); err != nil {
		return err
	}
	if t.To, err = schemas.ParseState("to_state", to); err != nil {
		return err
	}
	if cause == unspecified {
		return nil
	}
	t.Cause, err = schemas.ParseCause("cause", cause)
	return err
}
