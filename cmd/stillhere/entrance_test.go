package main

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// The chart's HTTPRoute leads writes of a user to the role that takes them, in both forms of the user's path.
func TestTheChartLeadsWritesOfAUserToIngest(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../deploy/helm/stillhere/templates/entrance.yaml"))(t)
	toIngest := func(method, path string) bool {
		return slices.ContainsFunc(regexp.MustCompile(`\{method: (\w+), path: \{type: RegularExpression, value: "([^"]+)"`).FindAllStringSubmatch(string(text), -1),
			func(rule []string) bool {
				return rule[1] == method && regexp.MustCompile("^(?:"+rule[2]+")$").MatchString(path)
			})
	}
	for _, user := range []string{"7", "users/7", "users/batch", "users/users", "users/a%2Fb", "a%2Fb"} {
		path := "/presence/" + user
		for _, write := range [][2]string{{http.MethodPut, path + "/visibility"}, {http.MethodPut, path + "/audience"},
			{http.MethodPut, path + "/override"}, {http.MethodDelete, path + "/override"}, {http.MethodDelete, path},
			{http.MethodPost, path + "/audience/deny"}} {
			if !toIngest(write[0], write[1]) {
				t.Errorf("%s %s is led to the role api, which answers 405", write[0], write[1])
			}
		}
		for _, other := range [][2]string{{http.MethodPut, path + "/followers/8"}, {http.MethodDelete, path + "/followers/8"}, {http.MethodGet, path},
			{http.MethodGet, path + "/audience"}, {http.MethodGet, path + "/audience/deny"}} {
			if toIngest(other[0], other[1]) {
				t.Errorf("%s %s is led to the role ingest", other[0], other[1])
			}
		}
	}
}
