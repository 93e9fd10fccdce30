package embedded

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestOnlyWhoKnowsThePasswordOfThisRunGetsIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var before string
	for _, password := range []string{"", "first", "second", ""} { // each run has its own
		k := must.Get(StartKafka(KafkaConfig{DataDir: dir, Password: password}))(t)
		enters := func(options ...kgo.Opt) bool {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := kadm.NewClient(client(t, k.Addrs(), options...)).ListTopics(ctx)
			return err == nil
		}
		as := func(password string) kgo.Opt {
			return kgo.SASL(scram.Auth{User: User, Pass: password}.AsSha256Mechanism())
		}
		if got, want := enters(), password == ""; got != want {
			t.Errorf("password %q: without one %v", password, got)
		}
		if password != "" && (!enters(as(password)) || enters(as("wrong")) || before != "" && enters(as(before))) {
			t.Errorf("password %q does not decide who gets in", password)
		}
		before = password
		k.Close()
	}
	r := must.Get(StartRedis(RedisConfig{Listen: "127.0.0.1:0", Password: "first"}))(t)
	defer r.Close()
	conn := must.Get(new(net.Dialer).DialContext(t.Context(), "tcp", r.Addr()))(t)
	defer conn.Close()
	answer := make([]byte, 100)
	must.Get(conn.Write([]byte("*2\r\n$4\r\nKEYS\r\n$1\r\n*\r\n")))(t)
	if n, err := conn.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), "-NOAUTH") {
		t.Errorf("Redis answers %q %v", answer[:n], err)
	}
}
