package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestAClusterThatCannotWriteAcknowledgesNothingMoreAndIsWholeAfterwards(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	failed := make(chan error, 1)
	k := must.Get(StartKafka(KafkaConfig{DataDir: dir, Failed: func(err error) { failed <- err }}))(t)
	topic(t, k.Addrs(), "log", nil)
	topic(t, k.Addrs(), "more", nil)
	c := client(t, k.Addrs())
	acknowledged := 0
	for acknowledged < lines {
		must.Do(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "log", Value: fmt.Append(nil, acknowledged)}).FirstErr())
		acknowledged++
	}
	// The directory of another topic cannot be made.
	must.Do(t, os.WriteFile(filepath.Join(dir, "partitions", "more-0"), nil, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answered := make(chan error, 2)
	go func() { answered <- c.ProduceSync(ctx, &kgo.Record{Topic: "more"}).FirstErr() }()
	if err := <-failed; !errors.Is(err, ErrUnwritten) || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
		t.Errorf("the failure is %v, want one line with the directory", err)
	}
	go func() { answered <- c.ProduceSync(ctx, &kgo.Record{Topic: "log"}).FirstErr() }()
	select {
	case err := <-answered:
		t.Errorf("a record is answered (%v) after a write failed", err)
	case <-time.After(time.Second):
	}
	cancel()
	k.Close()
	must.Do(t, os.Remove(filepath.Join(dir, "partitions", "more-0")))
	k = start(t, KafkaConfig{DataDir: dir})
	for i, r := range consume(t, k.Addrs(), "log", acknowledged) {
		if string(r.Value) != fmt.Sprint(i) {
			t.Errorf("record %d is %q", i, r.Value)
		}
	}
}
