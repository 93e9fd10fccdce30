package web_test

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/web"
)

func TestEventsHaveWhatIsGivenAndAComment(t *testing.T) {
	t.Parallel()
	to := web.AppendRetry(nil, 1500*time.Millisecond)
	to = web.AppendEvent(to, "", "", []byte(`{}`))
	to = web.AppendEvent(to, "change", "7", []byte(`{"a":1}`))
	to = web.AppendEvent(to, "", "8", nil)
	if want := "retry: 1500\n\ndata: {}\n\nevent: change\nid: 7\ndata: {\"a\":1}\n\n:\n\n"; string(to) != want {
		t.Errorf("written is %q, not %q", to, want)
	}
}
