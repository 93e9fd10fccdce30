package app_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

// With names the same as TestAnotherUserReadsNothingAtAnyEndpointIfOnlyFollowersMayWatch, through endpoints alone.
func TestWithNamesAStrangerReadsNothingAtAnyEndpointIfOnlyFollowersMayWatch(t *testing.T) {
	t.Parallel()
	const owner, follower, stranger, nobody = "ann@example.org", "bob/2", "6f9619ff-8b86-d011-b42d-00c04fc964ff", "nobody"
	redis, err := embedded.StartRedis(embedded.RedisConfig{Listen: "127.0.0.1:0"})
	must.Do(t, err)
	t.Cleanup(func() { redis.Close() })
	host, _ := guardedAs(t, func(d *app.Dev) {
		d.Kafka.IDs, d.RedisAddr, d.Auth.Requests = "text", redis.Addr(), 0
		d.MayWatch, d.MayReadHistory = app.WatchFollowers, app.HistoryWatchers
	})
	admin := token(t, time.Hour, "sub", "root", "presence:admin")
	of := func(user string) string { return "/presence/users/" + url.PathEscape(user) }
	if status, _, text := send(t, host, http.MethodPut, of(owner)+"/followers/"+url.PathEscape(follower), "", admin); status != http.StatusNoContent {
		t.Fatalf("following: %d %s", status, text)
	}
	beat := `{"beats":[{"user_id":"` + owner + `","device_id":"phone","device_kind":"web"}]}`
	if status, _, text := send(t, host, http.MethodPost, "/presence/heartbeats", beat, admin); status != http.StatusAccepted {
		t.Fatalf("beating: %d %s", status, text)
	}
	eventually(t, owner+" is online", func() bool {
		_, _, text := ask(t, host, of(owner), admin)
		_, _, history := ask(t, host, of(owner)+"/history", admin)
		return strings.Contains(text, `"state":"online"`) && strings.Contains(history, "event_id")
	})

	for _, who := range []struct {
		name, token string
		may         bool
	}{
		{"the follower", reader(t, follower), true}, {"the user", reader(t, owner), true}, {"an administrator", admin, true},
		{"a stranger", reader(t, stranger), false},
	} {
		if status, _, text := ask(t, host, of(owner), who.token); (status == http.StatusOK) != who.may || who.may != strings.Contains(text, "online") {
			t.Errorf("%s asks for the user: %d %s", who.name, status, text)
		}
		_, header, text := ask(t, host, "/presence/batch?user_ids="+url.QueryEscape(owner), who.token)
		if who.may != strings.Contains(text, "online") || !who.may && (text != `{"`+owner+`":null}` || header.Get("Stale-Since") != "") {
			t.Errorf("%s asks for a batch: %s %v", who.name, text, header)
		}
		status, _, text := ask(t, host, of(owner)+"/history", who.token)
		if (status == http.StatusOK) != who.may || who.may != strings.Contains(text, "first_beat") {
			t.Errorf("%s asks for the history: %d %s", who.name, status, text)
		}
		if seen := strings.Contains(firstOf(t, host, "?user_ids="+owner, who.token), `"state":"online"`); seen != who.may {
			t.Errorf("%s opens a stream: sees the user: %t", who.name, seen)
		}
	}
	// Refusals do not tell who exists.
	for _, path := range []string{"", "/history"} {
		_, _, here := ask(t, host, of(owner)+path, reader(t, stranger))
		_, _, never := ask(t, host, of(nobody)+path, reader(t, stranger))
		if here != never {
			t.Errorf("%q of who is here: %s, of who never was: %s", path, here, never)
		}
	}
}

func TestWithNamesHiddenUsersAreShownAsOfflineWhereTheServerSaysSo(t *testing.T) {
	t.Parallel()
	host, _ := guardedAs(t, func(d *app.Dev) { d.Kafka.IDs, d.Auth.Requests, d.HiddenOffline = "text", 0, true })
	admin := token(t, time.Hour, "sub", "root", "presence:admin")
	beatUntilSeen(t, host, admin, "ann")
	if status, _, text := send(t, host, http.MethodPut, "/presence/ann/visibility", `{"visibility":"nobody"}`, admin); status != http.StatusOK {
		t.Fatalf("hiding: %d %s", status, text)
	}
	eventually(t, "others see ann offline", func() bool {
		_, _, text := ask(t, host, "/presence/ann", reader(t, "bob"))
		_, _, batch := ask(t, host, "/presence/batch?user_ids=ann", reader(t, "bob"))
		return strings.Contains(text, `"state":"offline"`) && batch == `{"ann":"offline"}`
	})
	if _, _, text := ask(t, host, "/presence/ann", admin); !strings.Contains(text, `"state":"online"`) {
		t.Errorf("an administrator sees %s", text)
	}
	if first := firstOf(t, host, "?user_ids=ann", reader(t, "bob")); !strings.Contains(first, `"state":"offline"`) {
		t.Errorf("a stream says %s", first)
	}
}
