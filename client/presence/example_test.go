package presence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/presence"
	"github.com/stillhere/stillhere/schemas"
)

// begin starts a server that answers requests, each by its path and body, and a client of it.
func begin(answers map[string]string) (c *presence.Client, end func()) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer, known := answers[strings.TrimSpace(fmt.Sprintf("%s %s", r.URL.RequestURI(), body))]
		if !known {
			w.WriteHeader(http.StatusBadRequest)
			answer = `{"error":{"code":"invalid_user_id","message":"must be an integer","field":"user_id"}}`
		}
		fmt.Fprint(w, answer)
	}))
	c, err := presence.New(presence.Config{HTTP: client.HTTP{URL: server.URL}, PageSize: 2})
	if err != nil {
		log.Fatal(err)
	}
	return c, server.Close
}

func ExampleClient_Batch() {
	c, end := begin(map[string]string{`/presence/batch {"user_ids":["1","2","3"]}`: `{"1":"online","2":null,"3":"offline"}`})
	defer end()

	states, err := c.Batch(context.Background(), "1", "2", "3")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(states.Of["1"], states.Of["2"] == presence.Hidden, states.Of["3"])
	// Output: online true offline
}

func ExampleClient_Users() {
	c, end := begin(map[string]string{
		`/presence/batch {"user_ids":["2","1"],"detail":true}`: `{"users":[{"user_id":"2","state":null},
			{"user_id":"1","state":"online","last_seen_at":"2026-11-28T10:00:00Z"}]}`,
	})
	defer end()

	users, err := c.Users(context.Background(), "2", "1", "2")
	if err != nil {
		log.Fatal(err)
	}
	for _, user := range users {
		fmt.Println(user.UserID, user.State == nil, user.LastSeenAt != 0)
	}
	// Output:
	// 2 true false
	// 1 false true
}

func ExampleClient_One() {
	c, end := begin(map[string]string{`/presence/users/1`: `{"user_id":"1","state":"away","last_seen_at":"2026-11-28T10:00:00Z"}`})
	defer end()

	user, err := c.One(context.Background(), "1")
	if err != nil {
		log.Fatal(err)
	}
	if user.State == nil {
		fmt.Println("hidden")
	} else {
		fmt.Println(*user.State, "seen", user.LastSeenAt != 0)
	}
	// Output: away seen true
}

// Others learn when the user was last here in words.
func ExampleClient_SetAudience() {
	c, end := begin(map[string]string{
		`/presence/users/1/audience {"last_seen":"coarse"}`: `{}`,
		`/presence/users/1/audience?user_id=1`:              `{"user_id":"1","base":"everyone","last_seen":"coarse"}`,
		`/presence/users/1`:                                 `{"user_id":"1","state":"offline","last_seen_at":null,"last_seen":"within_a_week"}`,
	})
	defer end()

	fmt.Println(c.SetAudience(context.Background(), "1", presence.Audience{LastSeen: presence.Coarse}))
	fmt.Println(c.Audience(context.Background(), "1"))
	user, err := c.One(context.Background(), "1")
	fmt.Println(user.LastSeenAt == 0, user.LastSeen, err)
	// Output:
	// <nil>
	// {everyone coarse} <nil>
	// true within_a_week <nil>
}

// A user looks hidden to two viewers.
func ExampleClient_Deny() {
	c, end := begin(map[string]string{
		`/presence/users/1/audience/deny {"add":["2","3"]}`: `{}`,
		`/presence/users/1/audience/deny?limit=2&user_id=1`: `{"deny":[{"user_id":"2","since":"2026-11-28T10:00:00Z"},{"user_id":"3","since":"2026-11-28T10:00:00Z"}],"next":null}`,
	})
	defer end()

	fmt.Println(c.Deny(context.Background(), "1", []string{"2", "3"}, nil))
	for denial, err := range c.Denied(context.Background(), "1") {
		fmt.Println(denial.UserID, denial.Since, err)
	}
	// Output:
	// <nil>
	// 2 2026-11-28T10:00:00.000Z <nil>
	// 3 2026-11-28T10:00:00.000Z <nil>
}

// A user asks not to be disturbed for an hour, and to be shown as away for good.
func ExampleClient_SetOverride() {
	c, end := begin(map[string]string{
		`/presence/users/1/override {"state":"dnd","until":"2026-11-28T11:00:00.000Z","note":"board meeting"}`: `{}`,
		`/presence/users/2/override {"state":"away"}`:                                                          `{}`,
		`/presence/users/2/override?user_id=2`:                                                                 `{"user_id":"2","override":{"state":"away"},"automatic":"online"}`,
	})
	defer end()

	at := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	dnd := presence.Override{State: presence.DND, Until: schemas.MillisOf(at.Add(time.Hour)), Note: "board meeting"}
	fmt.Println(c.SetOverride(context.Background(), "1", dnd), c.SetOverride(context.Background(), "2", presence.Override{State: presence.Away}))
	now, err := c.Override(context.Background(), "2")
	fmt.Println(now.Override.State, now.Automatic, err)
	// Output:
	// <nil> <nil>
	// away online <nil>
}

// History asks for page after page.
func ExampleClient_History() {
	c, end := begin(map[string]string{
		`/presence/users/1/history?limit=2`:          `{"changes":[{"from":"online","to":"offline"},{"from":"away","to":"online"}],"next_cursor":"a"}`,
		`/presence/users/1/history?cursor=a&limit=2`: `{"changes":[{"from":"online","to":"away"}],"next_cursor":null}`,
	})
	defer end()

	for change, err := range c.History(context.Background(), "1", presence.Range{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(change.From, "to", change.To)
	}
	// Output:
	// online to offline
	// away to online
	// online to away
}

// A refusal is a *client.ProblemError.
func ExampleClient_One_problem() {
	c, end := begin(nil)
	defer end()

	_, err := c.One(context.Background(), "0")
	if problem := (*client.ProblemError)(nil); errors.As(err, &problem) {
		fmt.Println(problem.Status, problem.Code, problem.Field)
	}
	// Output: 400 invalid_user_id user_id
}

func TestALongListIsAskedForInBodiesOf1000Users(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			UserIDs []string `json:"user_ids"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		asked = append(asked, fmt.Sprint(r.Method, " ", len(body.UserIDs)))
		fmt.Fprint(w, `{}`)
	}))
	t.Cleanup(server.Close)
	c, err := presence.New(presence.Config{HTTP: client.HTTP{URL: server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	users := make([]string, 2101)
	for i := range users {
		users[i] = strconv.Itoa(i%2100 + 1)
	}
	if _, err := c.Batch(t.Context(), users...); err != nil {
		t.Error(err)
	}
	if _, err := c.Users(t.Context(), users...); err != nil {
		t.Error(err)
	}
	want := "[POST 1000 POST 1000 POST 100 POST 1000 POST 1000 POST 100]"
	if got := fmt.Sprint(asked); got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}

// The token is asked for before each request, so it may be renewed; what fails for a while
// is tried again.
func ExampleConfig_token() {
	answers := []int{http.StatusServiceUnavailable, http.StatusOK}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Header.Get("Authorization"))
		w.WriteHeader(answers[0])
		answers = answers[1:]
		fmt.Fprint(w, `{"1":"online"}`)
	}))
	defer server.Close()

	renewed := 0
	c, err := presence.New(presence.Config{HTTP: client.HTTP{URL: server.URL, Token: func(context.Context) (string, error) {
		renewed++
		return fmt.Sprint("token-", renewed), nil
	}}})
	if err != nil {
		log.Fatal(err)
	}
	states, err := c.Batch(context.Background(), "1")
	fmt.Println(states.Of, err)
	// Output:
	// Bearer token-1
	// Bearer token-2
	// map[1:online] <nil>
}
