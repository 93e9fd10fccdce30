package query

import (
	"context"
	"net/http"
	"regexp"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// withinForm is what the parameter within may be, as openapi.yaml says.
var withinForm = regexp.MustCompile(`^[0-9]{1,6}(ms|s|m|h)$`)

// Follow makes idleAfter say within what time the device of an active kind was touched, by the policy of a tenant's
// users; 0, as without it: that is not known.
func (s *Server) Follow(idleAfter func(tenant string) time.Duration) { s.idleAfter.Store(&idleAfter) }

// push answers GET /presence/push?user_ids=1,2&within=5m: whether to hold back the push to the phone of a user who uses
// another kind of device, or to send it. A push is sent in doubt.
func (s *Server) push(ctx context.Context, request *http.Request, header http.Header) ([]byte, error) {
	users, err := s.listed(request, "within")
	if err != nil {
		return nil, err
	}
	known := (*s.idleAfter.Load())(users.tenant)
	if given := users.Values["within"]; len(given) > 0 {
		within, err := time.ParseDuration(given[0])
		switch {
		case err != nil || len(given) > 1 || !withinForm.MatchString(given[0]):
			return nil, schemas.Invalid("within", "must be one duration, as 500ms, 60s, 5m or 1h")
		case within < known:
			known = 0
		}
	}
	answers, err := s.charged(ctx, request, users)
	if err != nil {
		return nil, err
	}
	s.reader.addUnsure(ctx, users.ids, answers)
	return users.answer(answers, header, func(body []byte, a *answer) []byte {
		if known > 0 && a.usesAnother() || a.seen && a.stale == 0 && a.dnd() {
			return append(body, `"hold"`...)
		}
		return append(body, `"send"`...)
	}), nil
}

// dnd reports whether the user does not want to be disturbed, and others may know it.
func (a *answer) dnd() bool { return !a.hidden() && a.Override.State == schemas.DoNotDisturb }

// usesAnother reports whether others see, and can rely on it, that the user uses a device that is not mobile.
func (a *answer) usesAnother() bool {
	return a.present() && a.stale == 0 && a.unsure == 0 && a.Kinds.Active()&^schemas.SetOfKinds(schemas.Mobile) != 0
}
