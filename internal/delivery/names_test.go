package delivery

import (
	"slices"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

func TestNamesStayWithTheirRecipients(t *testing.T) {
	t.Parallel()
	all, names := []schemas.UserID{2, 5, 7, 9}, []string{"two", "", "seven", "nine"}
	for _, c := range []struct {
		some []schemas.UserID
		want []string
	}{
		{all, names},
		{[]schemas.UserID{2, 9}, []string{"two", "nine"}},
		{[]schemas.UserID{5, 7}, []string{"", "seven"}},
		{nil, []string{}},
	} {
		if got := namesOf(c.some, all, names); !slices.Equal(got, c.want) || got == nil {
			t.Errorf("%v: %q, want %q", c.some, got, c.want)
		}
	}
	if got := namesOf(all, all, nil); got != nil {
		t.Errorf("names %q of a delivery without names", got)
	}
}
