package main

import (
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/policy"
)

// logFlags say what is logged and how.
type logFlags struct {
	LogLevel  slog.Level `help:"What to log on standard error: debug, info, warn or error." default:"info" group:"Logs:"`
	LogFormat string     `help:"Log format: ${enum}." enum:"json,text" default:"json" group:"Logs:"`
}

func (f logFlags) logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: f.LogLevel, ReplaceAttr: withUnits}
	if f.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(os.Stderr, options))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, options))
}

// withUnits writes spans of time with their unit, which JSON would not.
func withUnits(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// policyFlags are the settings of the policy.
type policyFlags struct {
	HeartbeatInterval time.Duration `help:"How often devices send heartbeats; the server sends it to clients. Default: half of --online-ttl, at most 15s." group:"Policy:"`
	OnlineTTL         time.Duration `name:"online-ttl" help:"How long a device is live after a heartbeat." default:"30s" group:"Policy:"`
	OfflineDebounce   time.Duration `help:"Extra silence before the end of online is published." default:"15s" group:"Policy:"`
	AwayTTL           time.Duration `name:"away-ttl" help:"A silent user is away until this long after the last heartbeat, then offline; 0: offline at once." default:"5m" group:"Policy:"`
	IdleAfter         time.Duration `help:"A live device that nobody touched for this long counts as away; 0: never." default:"5m" group:"Policy:"`
	ByeDebounce       time.Duration `help:"Extra wait after the last device said bye." default:"0s" group:"Policy:"`
	AllowedLateness   time.Duration `help:"How long a limit waits for delayed heartbeats." default:"250ms" group:"Policy:"`
	GatewaySilence    time.Duration `help:"A gateway that was silent for this long counts as lost." default:"10s" group:"Policy:"`
	ReconnectWindow   time.Duration `help:"Extra time for the devices of a lost gateway to reconnect." default:"30s" group:"Policy:"`
	CohortRate        int           `help:"Devices of lost gateways that may go offline per second and partition." default:"2000" group:"Policy:"`
	CohortTotalRate   int           `help:"Devices of lost gateways that may go offline per second in all partitions together." default:"100000" group:"Policy:"`
	AnnounceDevices   bool          `help:"Publish changes in the set of device kinds." default:"true" negatable:"" group:"Policy:"`
	MaxDevices        int           `help:"Maximum devices of one user; one more evicts the device with the oldest heartbeat." default:"32" group:"Policy:"`
	FlapBurst         int           `help:"Changes of one user that may be published at once; after that, one every --flap-interval. 0: no limit." default:"20" group:"Policy:"`
	FlapInterval      time.Duration `help:"Time between two changes of a user who has used up --flap-burst." default:"2s" group:"Policy:"`
	BreakerPercent    int           `help:"Percentage of the present devices on silent gateways above which presence time stops. 0: never stop." default:"30" group:"Policy:"`
	BreakerLimit      time.Duration `help:"Longest time for which presence time stops." default:"10m" group:"Policy:"`
}

func (f policyFlags) settings() liveness.Settings {
	s := liveness.Defaults()
	s.HeartbeatInterval = f.HeartbeatInterval
	if s.HeartbeatInterval == 0 {
		s.HeartbeatInterval = policy.Interval(f.OnlineTTL)
	}
	s.OnlineTTL, s.OfflineDebounce, s.AwayTTL, s.IdleAfter = f.OnlineTTL, f.OfflineDebounce, f.AwayTTL, f.IdleAfter
	s.ByeDebounce, s.AllowedLateness, s.ReconnectWindow = f.ByeDebounce, f.AllowedLateness, f.ReconnectWindow
	s.GatewaySilence, s.CohortRate, s.CohortTotalRate, s.AnnounceDevices = f.GatewaySilence, f.CohortRate, f.CohortTotalRate, f.AnnounceDevices
	s.MaxDevices, s.FlapBurst, s.FlapInterval = f.MaxDevices, f.FlapBurst, f.FlapInterval
	s.BreakerPercent, s.BreakerLimit = f.BreakerPercent, f.BreakerLimit
	return s
}

// asked are the settings that somebody gave: on the command line, in the environment or in
// the file.
func (f policyFlags) asked(parsed *kong.Context, file *configFile) policy.Change {
	given := onCommandLine(parsed)
	var names []string
	for _, flag := range settingsOf(parsed.Selected()) {
		if flag.Group.Title == "Policy:" && origin(flag, given, file) != byDefault {
			names = append(names, strings.ReplaceAll(flag.Name, "-", "_"))
		}
	}
	return policy.Only(f.settings(), names)
}

// kafkaFlags say where Kafka is.
type kafkaFlags struct {
	KafkaBrokers  []string `help:"Bootstrap addresses, host:port." default:"127.0.0.1:9092" group:"Kafka:"`
	TopicPrefix   string   `help:"Prefix of the topic names." default:"presence." group:"Kafka:"`
	KafkaTLS      bool     `name:"kafka-tls" help:"Connect with TLS." group:"Kafka:"`
	KafkaTLSCA    string   `name:"kafka-tls-ca" help:"File with the CA certificates to trust (PEM). Default: the system's." group:"Kafka:" type:"path"`
	KafkaTLSCert  string   `name:"kafka-tls-cert" help:"File with this client's certificate (PEM), for mutual TLS." group:"Kafka:" type:"path"`
	KafkaTLSKey   string   `name:"kafka-tls-key" help:"File with this client's key (PEM)." group:"Kafka:" type:"path"`
	KafkaTLSName  string   `name:"kafka-tls-server-name" help:"Name that the brokers' certificates must have. Default: the host name." group:"Kafka:"`
	KafkaSASL     string   `name:"kafka-sasl" help:"SASL mechanism: ${enum}." enum:",PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER" default:"" group:"Kafka:"`
	KafkaUser     string   `help:"User for --kafka-sasl." group:"Kafka:"`
	KafkaPassword string   `help:"Password for --kafka-user; better set in STILLHERE_KAFKA_PASSWORD or a file." group:"Kafka:" secret:""`
	KafkaPassFile string   `name:"kafka-password-file" help:"File with the password, read again for every connection." group:"Kafka:" type:"path"`

	KafkaOAuthTokenFile  string `name:"kafka-oauth-token-file" help:"File with the token for OAUTHBEARER, read again for every connection." group:"Kafka:" type:"path"`
	KafkaOAuthURL        string `name:"kafka-oauth-url" help:"Token endpoint for OAUTHBEARER (client credentials), in place of a token file." group:"Kafka:"`
	KafkaOAuthClient     string `name:"kafka-oauth-client-id" help:"Client id for the token endpoint." group:"Kafka:"`
	KafkaOAuthSecret     string `name:"kafka-oauth-client-secret" help:"Client secret; better set in STILLHERE_KAFKA_OAUTH_CLIENT_SECRET or a file." group:"Kafka:" secret:""`
	KafkaOAuthSecretFile string `name:"kafka-oauth-client-secret-file" help:"File with the client secret." group:"Kafka:" type:"path"`
	KafkaOAuthScope      string `name:"kafka-oauth-scope" help:"Scopes to request, separated by spaces." group:"Kafka:"`
}

// listenFlags are the listen addresses.
type listenFlags struct {
	Listen               string `help:"Listen address for clients, host:port." default:"127.0.0.1:8080" group:"HTTP server:"`
	Admin                string `help:"Listen address for health and metrics, host:port; empty: none." default:"127.0.0.1:9090" group:"HTTP server:"`
	AllowUnauthenticated bool   `help:"Listen on non-loopback addresses without authentication." group:"HTTP server:"`
	adminFlags
}

// adminFlags say what the admin port serves, and to whom.
type adminFlags struct {
	AdminExpose   bool     `help:"Allow the admin port on non-loopback addresses: everyone who can reach it sees metrics and readiness." group:"HTTP server:"`
	AdminProfiles bool     `help:"Serve profiles (/debug/pprof/) on the admin port: they reveal memory contents and use processor time." group:"HTTP server:"`
	AllowedHosts  []string `help:"Additional allowed hosts, without port, in requests to the admin port and, without authentication, to the client port. The listen address and the loopback are always allowed; other hosts get 421." placeholder:"presence.internal,..." group:"HTTP server:"`
}

func (f adminFlags) admin() app.Admin {
	return app.Admin{Expose: f.AdminExpose, Profiles: f.AdminProfiles}
}

// webFlags bound the use of the HTTP server.
type webFlags struct {
	AllowedOrigins []string `help:"Web origins whose pages may use the API besides its own, such as https://chat.example.com or https://*.example.com." placeholder:"https://*.example.com,..." group:"HTTP server:"`
	MaxStreams     int      `help:"Maximum connections of viewers; further ones get 503." default:"100000" group:"HTTP server:"`
	MaxConnections int      `help:"Maximum open connections; the server closes further ones at once. 0: as many as the descriptor limit (ulimit -n) allows." default:"0" group:"HTTP server:"`
	MaxPerAddress  int      `name:"max-connections-per-address" help:"Maximum open connections of one address, or one IPv6 /64 network; the server closes further ones at once. 0: no limit, which is needed behind a proxy that is not in --trusted-proxies, since all clients then share its address." default:"0" group:"HTTP server:"`
	MaxPerUser     int      `name:"max-connections-per-user" help:"Maximum open sockets and streams of one user in this process; further ones get 429. 0: no limit." default:"20" group:"HTTP server:"`
	TrustedProxies []string `help:"Addresses or networks of proxies whose X-Forwarded-For is trusted; --max-connections-per-address then limits the clients behind them." placeholder:"10.0.0.0/8,..." group:"HTTP server:"`
}

func (f webFlags) apply(c *app.Config) {
	c.AllowedOrigins, c.Fanout.MaxConnections = f.AllowedOrigins, f.MaxStreams
	c.MaxConnections, c.MaxPerAddress, c.MaxPerUser, c.TrustedProxies = f.MaxConnections, f.MaxPerAddress, f.MaxPerUser, f.TrustedProxies
}

// storeFlags are the addresses of Redis and Postgres.
type storeFlags struct {
	redisFlags
	postgresFlags
}

func (f kafkaFlags) config() (kafka.Config, error) {
	c := kafka.Config{Brokers: f.KafkaBrokers, Prefix: f.TopicPrefix}
	err := f.secure(&c)
	return c, err
}
