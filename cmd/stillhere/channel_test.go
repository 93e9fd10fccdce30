package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestAWebhookThatWouldBeUnsafeDoesNotStart(t *testing.T) {
	short := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(short, []byte("s3cret"), 0o600))
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"short secret":     {[]string{"--url", "http://127.0.0.1:1/", "--secret-file", short}, "at least 32 bytes"},
		"metadata address": {[]string{"--url", "http://169.254.169.254/latest/"}, "--allow-link-local"},
		"link-local":       {[]string{"--url", "http://[fe80::1%25lo]:80/"}, "--allow-link-local"},
		"credentials":      {[]string{"--url", "ftp://admin:hunter2@127.0.0.1/?token=t0ken"}, "ftp://127.0.0.1/"},
	} {
		code, _, errs := stillhere(t, "", append([]string{"channel", "webhook"}, c.args...)...)
		if code == 0 || !strings.Contains(errs, c.want) || strings.Contains(errs, "hunter2") || strings.Contains(errs, "t0ken") {
			t.Errorf("%s: it ended with %d and said %q, want %q", name, code, errs, c.want)
		}
	}
}

// Such a channel has no recipients about whom the graph could be asked.
func TestAChannelOfAllTransitionsIsRefusedWhereOnlyFollowersMayWatch(t *testing.T) {
	for _, args := range [][]string{{"webhook", "--url", "http://127.0.0.1:1/"}, {"log"}} {
		code, _, errs := stillhere(t, "", append(append([]string{"channel"}, args...), "--of", "transitions", "--may-watch", "followers")...)
		if code == 0 || !strings.Contains(errs, "--may-watch everyone") {
			t.Errorf("%v: it ended with %d and said %q", args, code, errs)
		}
	}
}

func TestAChannelForFollowersAloneNeedsToKnowWhoFollowsWhom(t *testing.T) {
	for _, args := range [][]string{{"webhook", "--url", "http://127.0.0.1:1/"}, {"log"}} {
		code, _, errs := stillhere(t, "", append(append([]string{"channel"}, args...), "--may-watch", "followers")...)
		if code == 0 || !strings.Contains(errs, "--postgres or --sqlite") {
			t.Errorf("%v: it ended with %d and said %q", args, code, errs)
		}
	}
}
