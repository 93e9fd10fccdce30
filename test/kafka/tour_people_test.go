//go:build unix

package kafka_test

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/stillhere/stillhere/schemas"
)

// toured are the numbers of the users of a tour.
var toured = []int{1, 2, 3, 4, 50}

// name is what user n is called in text mode. All are of one tenant.
func (w *tour) name(n int) schemas.Name {
	return schemas.Name{Tenant: w.mode.Tenants[1], Text: fmt.Sprintf("user, %d/é", n)}
}

// id is the id of user n.
func (w *tour) id(n int) schemas.UserID {
	if !w.mode.Text() {
		return schemas.UserID(n)
	}
	return w.mode.Users().ID(w.name(n).Tenant, w.name(n).Text)
}

// device is the id of a device of user n.
func (w *tour) device(n, device int) schemas.DeviceID {
	if !w.mode.Text() {
		return schemas.DeviceID(device)
	}
	return w.mode.Users().DeviceID(w.name(n).Tenant, w.name(n).Text, fmt.Sprint(device))
}

// called is what people call user n.
func (w *tour) called(n int) string {
	if !w.mode.Text() {
		return fmt.Sprint(n)
	}
	return w.name(n).Text
}

// user is how JSON names user n, and json is that with the tenant.
func (w *tour) user(n int) string { return fmt.Sprintf(`"user_id":%q`, w.called(n)) }

func (w *tour) json(n int) string {
	if !w.mode.Text() {
		return w.user(n)
	}
	return fmt.Sprintf(`%s,"tenant":%q`, w.user(n), w.name(n).Tenant)
}

// of is a command about a user of the tour.
func (w *tour) of(words ...string) []string {
	if w.mode.Text() {
		words = append(words, "--tenant", w.name(1).Tenant)
	}
	return words
}

// at is the path of something about user n, asking that of an endpoint about several; both with parameters.
func (w *tour) at(n int, rest string, parameters ...string) string {
	if !w.mode.Text() {
		return w.asking(fmt.Sprintf("/presence/%d%s", n, rest), parameters...)
	}
	return w.asking("/presence/users/"+url.PathEscape(w.called(n))+rest, parameters...)
}

func (w *tour) asking(path string, parameters ...string) string {
	query := url.Values{}
	for i := 0; i < len(parameters); i += 2 {
		query.Add(parameters[i], parameters[i+1])
	}
	if w.mode.Text() {
		query.Set("tenant", w.name(1).Tenant)
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// forPeople returns a text, in which users who have names must not be called by their ids.
func (w *tour) forPeople(what, text string) string {
	w.Helper()
	for _, n := range toured {
		if w.mode.Text() && strings.Contains(text, w.id(n).String()) {
			w.Errorf("%s has the id of %s:\n%s", what, w.called(n), text)
		}
	}
	return text
}
