package query

import (
	"context"
	"net/http"

	"github.com/stillhere/stillhere/schemas"
)

// overrideAnswer is the answer to GET /presence/{user_id}/override.
type overrideAnswer struct {
	schemas.NamedUser
	Override *schemas.AskedOverride `json:"override"`
	// Automatic is, under away, what the state would be without.
	Automatic string `json:"automatic,omitempty"`
}

// override answers GET /presence/{user_id}/override to the user and to administrators, as visibility does.
func (s *Server) override(ctx context.Context, request *http.Request, header http.Header) ([]byte, error) {
	var answer overrideAnswer
	known, err := s.ofOwn(ctx, request, header, &answer.NamedUser)
	if err == nil && known != nil && known.Override.State != 0 {
		err = s.complete(ctx, known, header)
	}
	if err == nil && known != nil {
		answer.Override = known.Override.Asked()
		if known.Override.Automatic != 0 {
			answer.Automatic = schemas.StateWord(known.Override.Automatic)
		}
	}
	return mustJSON(answer), err
}
