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
)

func TestAClusterThatCannotWriteAcknowledgesNothingMoreAndIsWholeAfterwards(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	failed := make(chan error, 1)
	k, err := StartKafka(KafkaConfig{DataDir: dir, Failed: func(err error) { failed <- err }})
	if err != nil {
		t.Fatal(err)
	}
	topic(t, k.Addrs(), "log", nil)
	topic(t, k.Addrs(), "more", nil)
	c := client(t, k.Addrs())
	acknowledged := 0
	for acknowledged < lines {
		if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "log", Value: fmt.Append(nil, acknowledged)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		acknowledged++
	}
	// The directory of another topic cannot be made.
	if err := os.WriteFile(filepath.Join(dir, "partitions", "more-0"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
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
	if err := os.Remove(filepath.Join(dir, "partitions", "more-0")); err != nil {
		t.Fatal(err)
	}
	k = start(t, KafkaConfig{DataDir: dir})
	for i, r := range consume(t, k.Addrs(), "log", acknowledged) {
		if string(r.Value) != fmt.Sprint(i) {
			t.Errorf("record %d is %q", i, r.Value)
		}
	}
}
