package shown_test

import (
	"testing"

	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/schemas"
)

// Whom a user denies stays with the user; that the list has changed is passed on, so that whoever shows the user to
// somebody looks at it.
func TestWhomAUserDeniesIsNotPassedOnButTheVersionIs(t *testing.T) {
	t.Parallel()
	denies, err := schemas.NewDenies("", 1, []schemas.UserID{2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, cause := range schemas.Causes {
		if cause == schemas.Erased { // says nothing of them
			continue
		}
		for _, visibility := range []schemas.Visibility{schemas.Everyone, schemas.Nobody} {
			tr := schemas.Transition{User: 1, From: schemas.Online, To: schemas.Online, Cause: cause, Visibility: visibility, Version: 9,
				Override: schemas.Override{State: schemas.SetAway, Note: "n", Audience: 9}, Denies: denies, AudienceBefore: 5}
			for name, of := range map[string]func(*schemas.Transition) (*schemas.Transition, bool){"as null": shown.AsNull, "as if offline": shown.AsIfOffline} {
				seen, visible := of(&tr)
				if visible && (seen.Denies != "" || seen.AudienceBefore != 0 || seen.Override.Audience != 9) {
					t.Errorf("%s, %s: %+v", schemas.CauseWord(cause), name, seen)
				}
			}
		}
	}
}
