package app_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
)

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
