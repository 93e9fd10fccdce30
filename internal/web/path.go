// Package userpath reads the user in the path of a request.
//
// A user's endpoints are below /presence/{user_id}. With --ids text a user may be called batch,
// count or stream, as other endpoints below /presence/ are. So the paths below
// /presence/users/{user_id} mean the same endpoints, whatever the user is called. In both forms the
// name is percent-encoded. A user who is called users needs the second form.
package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// alias begins the second form of a path.
const alias = "/presence/users/"

// stand is the first form with a hyphen for the user, which is not the name of another endpoint.
const stand = "/presence/-"

type userKey struct{}

// called is how a request called its user.
type called struct{ user, path string }

// Alias makes the second form of a user's paths reach the endpoints of the first. Put it before
// everything that looks at paths. Endpoints read the user with UserOf.
func Alias(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, alias) {
			r = rewritten(r)
		}
		next.ServeHTTP(w, r)
	})
}

// rewritten returns r itself if its path names no user.
func rewritten(r *http.Request) *http.Request {
	// Escaped, because a name may have slashes.
	rest, found := strings.CutPrefix(r.URL.EscapedPath(), alias)
	if !found {
		return r
	}
	escaped, tail, deeper := strings.Cut(rest, "/")
	user, err := url.PathUnescape(escaped)
	if err != nil || user == "" {
		return r
	}
	if deeper {
		tail = "/" + tail
	}
	path, err := url.PathUnescape(stand + tail)
	if err != nil {
		return r
	}
	r = r.WithContext(context.WithValue(r.Context(), userKey{}, called{user, r.URL.EscapedPath()}))
	at := *r.URL
	at.Path, at.RawPath = path, stand+tail
	r.URL = &at
	return r
}

// UserOf returns the user in the path of a request whose pattern has {user_id}, as the caller wrote it.
func UserOf(r *http.Request) string {
	if as, ok := r.Context().Value(userKey{}).(called); ok {
		return as.user
	}
	return r.PathValue("user_id")
}

// PathOf returns the path of a request for people, as the caller wrote it.
func PathOf(r *http.Request) string {
	if as, ok := r.Context().Value(userKey{}).(called); ok {
		return as.path
	}
	return r.URL.Path
}
