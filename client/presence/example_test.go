package presence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/clienttest"
	"github.com/stillhere/stillhere/client/presence"
	"github.com/stillhere/stillhere/schemas"
)

// begin starts a server and a client of it.
func begin() (*clienttest.Server, *presence.Client) {
	server, err := clienttest.Start()
	if err != nil {
		log.Fatal(err)
	}
	c, err := presence.New(presence.Config{HTTP: server.HTTP(), PageSize: 2})
	if err != nil {
		log.Fatal(err)
	}
	return server, c
}

func ExampleClient_Batch() {
	server, c := begin() // presence.New, with a server in memory
	defer server.Close()
	server.Set("1", schemas.Online)
	server.SetVisibility("2", schemas.Nobody)

	states, err := c.Batch(context.Background(), "1", "2", "3")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(states.Of["1"], states.Of["2"] == presence.Hidden, states.Of["3"])
	// Output: online true offline
}

func ExampleClient_Users() {
	server, c := begin()
	defer server.Close()
	server.Set("1", schemas.Online)
	server.SetVisibility("2", schemas.Nobody)

	users, err := c.Users(context.Background(), "2", "1", "2")
	if err != nil {
		log.Fatal(err)
	}
	for _, user := range users {
		fmt.Println(user.UserID, user.State == nil, user.LastSeenAt != 0)
	}
	hidden, err := c.Visibility(context.Background(), "2")
	fmt.Println(hidden, err)
	// Output:
	// 2 true false
	// 1 false true
	// nobody <nil>
}

func ExampleClient_One() {
	server, c := begin()
	defer server.Close()
	server.Set("1", schemas.Away)

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

// History asks for page after page.
func ExampleClient_History() {
	server, c := begin()
	defer server.Close()
	for _, state := range []schemas.State{schemas.Online, schemas.Away, schemas.Online, schemas.Offline} {
		server.Set("1", state)
	}

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
	// offline to online
}

// A refusal is a *client.ProblemError.
func ExampleClient_One_problem() {
	server, c := begin()
	defer server.Close()

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
