package looptest

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/keystest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// startGuarded starts a broker with kfake's options for TLS, users and ACLs.
func startGuarded(t *testing.T, options ...kfake.Opt) (kafka.Config, *embedded.Kafka) {
	t.Helper()
	broker := must.Get(embedded.StartKafka(embedded.KafkaConfig{Partitions: 2, Options: options}))(t)
	t.Cleanup(broker.Close)
	return kafka.Config{Brokers: broker.Addrs(), InstanceName: "test", DeliveryTimeout: 2 * time.Second}, broker
}

func apply(t *testing.T, cfg kafka.Config) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := admin.ApplyTopics(ctx, cfg, 2, 1)
	return err
}

func TestEachWayToAuthenticateWorksAndItsFaultsAreReported(t *testing.T) {
	t.Parallel()
	ours, others := keystest.New(t), keystest.New(t)
	broker := ours.Issue("broker.example", time.Hour)
	expired := ours.Issue("broker.example", -time.Minute)
	user := func(mechanism, password string) *kafka.Security {
		return &kafka.Security{Mechanism: mechanism, User: "u", Password: password}
	}
	cases := []struct {
		name   string
		broker keystest.Pair
		tls    *keys.TLS
		as     *kafka.Security
		want   string // in the error; empty: it works
	}{
		{"PLAIN", broker, &keys.TLS{CA: ours.CA}, user("PLAIN", "right"), ""},
		{"SCRAM-SHA-256", broker, &keys.TLS{CA: ours.CA}, user("SCRAM-SHA-256", "right"), ""},
		{"SCRAM-SHA-512", broker, &keys.TLS{CA: ours.CA}, user("SCRAM-SHA-512", "right"), ""},
		{"wrong password, PLAIN", broker, &keys.TLS{CA: ours.CA}, user("PLAIN", "wrong"), "wrong user or password"},
		{"wrong password, SCRAM", broker, &keys.TLS{CA: ours.CA}, user("SCRAM-SHA-512", "wrong"), "wrong user or password"},
		{"mechanism not offered", broker, &keys.TLS{CA: ours.CA}, &kafka.Security{Mechanism: "OAUTHBEARER", Token: fixedToken}, "does not offer this SASL mechanism"},
		{"no SASL where it is wanted", broker, &keys.TLS{CA: ours.CA}, nil, "is SASL missing?"},
		{"no TLS where it is wanted", broker, nil, user("PLAIN", "right"), "is TLS missing?"},
		{"unknown authority", broker, &keys.TLS{CA: others.CA}, user("PLAIN", "right"), "comes from an authority that is not trusted"},
		{"expired certificate of the broker", expired, &keys.TLS{CA: ours.CA}, user("PLAIN", "right"), "renew the server's certificate"},
		{"certificate for another name", broker, &keys.TLS{CA: ours.CA, ServerName: "other.example"}, user("PLAIN", "right"), "connect by a name that the server's certificate has"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg, _ := startGuarded(t, kfake.TLS(ours.Server(c.broker, nil)), kfake.EnableSASL(),
				kfake.User("PLAIN", "u", "right"), kfake.User("SCRAM-SHA-256", "u", "right"), kfake.User("SCRAM-SHA-512", "u", "right"))
			if c.tls != nil {
				cfg.Dialer = c.tls.Dialer(nil)
			}
			cfg.Security = c.as
			err := apply(t, cfg)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("want an error with %q, got: %v", c.want, err)
			}
		})
	}
}

func fixedToken(context.Context) (string, error) { return "token", nil }

func TestSecurityThatCannotWorkIsRefusedByName(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]*kafka.Security{
		`"KERBEROS": must be one of`: {Mechanism: "KERBEROS", User: "u"},
		"needs a user":               {Mechanism: "PLAIN"},
		"needs a token":              {Mechanism: "OAUTHBEARER"},
	} {
		err := kafka.Config{Brokers: []string{"localhost:9092"}, Security: s}.Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got: %v", want, err)
		}
	}
}

func TestAnExpiredClientCertificateIsReportedAndItsRenewalIsUsedWithoutARestart(t *testing.T) {
	t.Parallel()
	ours := keystest.New(t)
	mine := ours.Issue("detector", -time.Minute)
	cfg, _ := startGuarded(t, kfake.TLS(ours.Server(ours.Issue("broker", time.Hour), ours)))
	cfg.Dialer = keys.TLS{CA: ours.CA, Cert: mine.Cert, Key: mine.Key}.Dialer(nil)
	producer := kafkatest.Producer(t, cfg)
	if err := producer.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "refuses this client's certificate") && !strings.Contains(err.Error(), "refused this client's certificate") {
		t.Fatalf("with an expired certificate: %v", err)
	}
	ours.Renew(mine, "detector", time.Hour)
	if err := producer.Ping(t.Context()); err != nil {
		t.Fatalf("with the renewed certificate: %v", err)
	}
}

func TestAChangedPasswordIsUsedWithoutARestart(t *testing.T) {
	t.Parallel()
	cfg, _ := startGuarded(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "admin", "admin"), kfake.Superuser("SCRAM-SHA-512", "u", "old"))
	file := filepath.Join(t.TempDir(), "password")
	writePassword := func(text string) {
		must.Do(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
	}
	writePassword("old")
	wires := &cuttable{}
	cfg.Dialer = wires.dial
	cfg.Security = &kafka.Security{Mechanism: "SCRAM-SHA-512", Credentials: func(context.Context) (string, string, error) {
		password, err := keys.Secret{File: file}.Read()
		return "u", password, err
	}}
	must.Do(t, apply(t, cfg))
	producer := kafkatest.Producer(t, cfg)
	append := func() error {
		return producer.AppendSync(t.Context(), schemas.Outgoing{Topic: schemas.DeadLetter, Partition: 0, Value: []byte("x")})
	}
	must.Do(t, append())

	admin, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...), kgo.SASL(scram.Auth{User: "admin", Pass: "admin"}.AsSha256Mechanism()))
	must.Do(t, err)
	defer admin.Close()
	altered, err := kadm.NewClient(admin).AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: "u", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "new"}})
	if err != nil || altered.Error() != nil {
		t.Fatal(err, altered.Error())
	}
	if err := append(); err != nil {
		t.Fatalf("a connection that is open outlives the change: %v", err)
	}
	wires.cut()
	if err := append(); err == nil || !strings.Contains(err.Error(), "wrong user or password") {
		t.Fatalf("with the old password: %v", err)
	}
	writePassword("new")
	if err := append(); err != nil {
		t.Fatalf("with the new password in the file: %v", err)
	}
}

func TestATokenIsSentAndARenewedOneIsUsedForTheNextConnection(t *testing.T) {
	t.Parallel()
	cfg, broker := startGuarded(t)
	// kfake has no OAUTHBEARER: this answers for it.
	var mu sync.Mutex
	var sent []string
	broker.Cluster().ControlKey(int16(kmsg.SASLHandshake), func(r kmsg.Request) (kmsg.Response, error, bool) {
		broker.Cluster().KeepControl()
		return r.ResponseKind(), nil, true
	})
	broker.Cluster().ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		broker.Cluster().KeepControl()
		answer := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, string(r.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes))
		if strings.Contains(sent[len(sent)-1], "expired") {
			answer.ErrorCode = kerr.SaslAuthenticationFailed.Code
		}
		return answer, nil, true
	})
	token := "expired"
	cfg.Security = &kafka.Security{Mechanism: "OAUTHBEARER", Token: func(context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		return token, nil
	}}
	if err := apply(t, cfg); err == nil || !strings.Contains(err.Error(), "token is wrong or has expired") {
		t.Fatalf("with an expired token: %v", err)
	}
	mu.Lock()
	token = "fresh"
	mu.Unlock()
	must.Do(t, apply(t, cfg))
	mu.Lock()
	defer mu.Unlock()
	if last := sent[len(sent)-1]; !strings.Contains(last, "auth=Bearer fresh") {
		t.Fatalf("sent %q", last)
	}
}

// cuttable dials connections that can be broken.
type cuttable struct {
	mu   sync.Mutex
	open []net.Conn
}

func (c *cuttable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		c.mu.Lock()
		c.open = append(c.open, conn)
		c.mu.Unlock()
	}
	return conn, err
}

func (c *cuttable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		_ = conn.Close()
	}
	c.open = nil
}
