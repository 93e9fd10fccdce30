package console

import (
	"errors"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

func TestAPolicyThatCannotBeTriedNamesTheLimitsOfTheSetting(t *testing.T) {
	t.Parallel()
	duration := "must be a duration with its unit, such as 45s or 5m, "
	for _, c := range []struct {
		name  string
		value any
		want  string
	}{
		{"offline-debounce", "30", duration + "0 or more and at most 168h0m0s"},
		{"online-ttl", "99999999h", duration + "positive and at most 168h0m0s"},
		{"online-ttl", "200h", "is 200h, must be at most 168h0m0s"},
		{"online_ttl_seconds", jsonNumber("-5"), "is -5s, must be positive"},
		{"online-ttl", "1.5us", "is 1.5us, must be whole milliseconds"},
		{"allowed-lateness", "soon", duration + "0 or more and at most 5s"},
		{"allowed-lateness", "6s", "is 6s, must be at most 5s"},
		{"flap-burst", jsonNumber("-1"), "is -1, must be between 0 and 1000"},
		{"flap-burst", jsonNumber("1e30"), "must be a whole number between 0 and 1000"},
		{"max-devices", true, "must be a whole number between 1 and 128"},
		{"announce-devices", "maybe", "must be true or false"},
		{"announce-devices", nil, "must be true or false"},
	} {
		var bad *schemas.FieldError
		_, err := changed(schemas.DefaultPolicy(), map[string]any{c.name: c.value})
		if !errors.As(err, &bad) || bad.Field != "policy."+c.name || bad.Reason != c.want {
			t.Errorf("%s: %v is answered %v, not %q", c.name, c.value, err, c.want)
		}
	}
}

func TestEverySettingSaysWhatItMayBe(t *testing.T) {
	t.Parallel()
	for _, s := range schemas.DefaultPolicy().Settings() {
		if _, err := limitOf(s.Name, s.Value); err != nil {
			t.Errorf("%s: %s has another form: %v", s.Name, s.Value, err)
		}
		form := formOf(s.Name, s.Value)
		if form[len(form)-1] == ' ' || form == "" {
			t.Errorf("of %s is said %q", s.Name, form)
		}
	}
}
