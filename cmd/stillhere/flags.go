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
	LogFormat string     `help:"How: ${enum}." enum:"json,text" default:"json" group:"Logs:"`
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

// policyFlags say when a person counts as here.
type policyFlags struct {
	HeartbeatInterval time.Duration `help:"How often devices beat; told to clients. Half of --online-ttl, at most 15s, when left out." group:"Policy:"`
	OnlineTTL         time.Duration `name:"online-ttl" help:"A device is live this long after a beat." default:"30s" group:"Policy:"`
	OfflineDebounce   time.Duration `help:"Extra silence before leaving online is published." default:"15s" group:"Policy:"`
	AwayTTL           time.Duration `name:"away-ttl" help:"A silent user is away until this long after its last beat, then offline; 0: straight to offline." default:"5m" group:"Policy:"`
	IdleAfter         time.Duration `help:"A live device not touched for this long counts as away; 0: never." default:"5m" group:"Policy:"`
	ByeDebounce       time.Duration `help:"Extra wait after the last device said bye." default:"0s" group:"Policy:"`
	AllowedLateness   time.Duration `help:"How long a limit waits for beats on their way." default:"250ms" group:"Policy:"`
	GatewaySilence    time.Duration `help:"A gateway from which nothing came for so long is lost." default:"10s" group:"Policy:"`
	ReconnectWindow   time.Duration `help:"What the devices of a lost gateway get on top." default:"30s" group:"Policy:"`
	CohortRate        int           `help:"How many devices of lost gateways are let go per second and partition." default:"2000" group:"Policy:"`
	CohortTotalRate   int           `help:"The same for all partitions together." default:"100000" group:"Policy:"`
	AnnounceDevices   bool          `help:"Publish changes in the set of device kinds." default:"true" negatable:"" group:"Policy:"`
	MaxDevices        int           `help:"Devices of one user that are kept; one more evicts the one that was heard longest ago." default:"32" group:"Policy:"`
	FlapBurst         int           `help:"Changes of one user that are published at once; further ones wait, and one goes out every --flap-interval. 0: no bound." default:"20" group:"Policy:"`
	FlapInterval      time.Duration `help:"How long one more change of such a user takes." default:"2s" group:"Policy:"`
	BreakerPercent    int           `help:"Share of the present devices, in percent, that gateways which fall silent may take along before presence time stands still. 0: any." default:"30" group:"Policy:"`
	BreakerLimit      time.Duration `help:"How long presence time stands still at most." default:"10m" group:"Policy:"`
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
	TopicPrefix   string   `help:"What the names of topics begin with." default:"presence." group:"Kafka:"`
	KafkaTLS      bool     `name:"kafka-tls" help:"Connect with TLS." group:"Kafka:"`
	KafkaTLSCA    string   `name:"kafka-tls-ca" help:"File with the certificates to trust (PEM); the system's when left out." group:"Kafka:" type:"path"`
	KafkaTLSCert  string   `name:"kafka-tls-cert" help:"File with this client's certificate (PEM), for mutual TLS." group:"Kafka:" type:"path"`
	KafkaTLSKey   string   `name:"kafka-tls-key" help:"File with its key (PEM)." group:"Kafka:" type:"path"`
	KafkaTLSName  string   `name:"kafka-tls-server-name" help:"Name that the brokers' certificates must have, if not the host's." group:"Kafka:"`
	KafkaSASL     string   `name:"kafka-sasl" help:"How to authenticate: ${enum}." enum:",PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER" default:"" group:"Kafka:"`
	KafkaUser     string   `help:"User for --kafka-sasl." group:"Kafka:"`
	KafkaPassword string   `help:"Its password; better in STILLHERE_KAFKA_PASSWORD or a file." group:"Kafka:" secret:""`
	KafkaPassFile string   `name:"kafka-password-file" help:"File with the password, read anew for every connection." group:"Kafka:" type:"path"`

	KafkaOAuthTokenFile  string `name:"kafka-oauth-token-file" help:"File with the token for OAUTHBEARER, read anew for every connection." group:"Kafka:" type:"path"`
	KafkaOAuthURL        string `name:"kafka-oauth-url" help:"Token endpoint for OAUTHBEARER (client credentials), in place of a token file." group:"Kafka:"`
	KafkaOAuthClient     string `name:"kafka-oauth-client-id" help:"Who asks there." group:"Kafka:"`
	KafkaOAuthSecret     string `name:"kafka-oauth-client-secret" help:"Its secret; better in STILLHERE_KAFKA_OAUTH_CLIENT_SECRET or a file." group:"Kafka:" secret:""`
	KafkaOAuthSecretFile string `name:"kafka-oauth-client-secret-file" help:"File with the secret." group:"Kafka:" type:"path"`
	KafkaOAuthScope      string `name:"kafka-oauth-scope" help:"Scopes to ask for, separated by spaces." group:"Kafka:"`
}

// doorFlags say where to listen.
type doorFlags struct {
	Listen               string `help:"Where the doors are, host:port." default:"127.0.0.1:8080" group:"Doors:"`
	Admin                string `help:"Where health and metrics are, host:port; empty: nowhere." default:"127.0.0.1:9090" group:"Doors:"`
	AllowUnauthenticated bool   `help:"Listen on other addresses than the loopback although there is no authentication." group:"Doors:"`
	adminFlags
}

// adminFlags say what the admin port shows, and to whom.
type adminFlags struct {
	AdminExpose   bool     `help:"Let the admin port listen on other addresses than the loopback: whoever reaches it sees metrics and readiness." group:"Doors:"`
	AdminProfiles bool     `help:"Serve profiles (/debug/pprof/) on the admin port: they show what is in memory, and take processor time." group:"Doors:"`
	AllowedHosts  []string `help:"Hosts, without port, besides the address that is listened on and the loopback, that requests may be for on the admin port and, where there is no authentication, on the doors; others are answered 421." placeholder:"presence.internal,..." group:"Doors:"`
}

func (f adminFlags) admin() app.Admin {
	return app.Admin{Expose: f.AdminExpose, Profiles: f.AdminProfiles}
}

// webFlags say who may use the doors, and how much of them.
type webFlags struct {
	AllowedOrigins []string `help:"Web origins besides the doors' own whose pages may use them, such as https://chat.example.com or https://*.example.com." placeholder:"https://*.example.com,..." group:"Doors:"`
	MaxStreams     int      `help:"Viewers' connections that this process serves; further ones are answered 503." default:"100000" group:"Doors:"`
	MaxConnections int      `help:"Connections that the doors may have open; further ones are closed at once. 0: as many as the limit of descriptors (ulimit -n) allows." default:"0" group:"Doors:"`
	MaxPerAddress  int      `name:"max-connections-per-address" help:"Connections that one address, or one IPv6 network of 64 bits, may have open; further ones are closed at once. 0: any number, as it must be behind a proxy that is not in --trusted-proxies, whose address they all have." default:"0" group:"Doors:"`
	MaxPerUser     int      `name:"max-connections-per-user" help:"Sockets and streams that one user may have open in this process, all together; further ones are answered 429. 0: any number." default:"20" group:"Doors:"`
	TrustedProxies []string `help:"Addresses or networks of proxies whose X-Forwarded-For is believed; --max-connections-per-address then bounds the clients behind them." placeholder:"10.0.0.0/8,..." group:"Doors:"`
}

func (f webFlags) apply(c *app.Config) {
	c.AllowedOrigins, c.Fanout.MaxConnections = f.AllowedOrigins, f.MaxStreams
	c.MaxConnections, c.MaxPerAddress, c.MaxPerUser, c.TrustedProxies = f.MaxConnections, f.MaxPerAddress, f.MaxPerUser, f.TrustedProxies
}

// storeFlags say where state is kept outside of Kafka.
type storeFlags struct {
	redisFlags
	postgresFlags
}

func (f kafkaFlags) config() (kafka.Config, error) {
	c := kafka.Config{Brokers: f.KafkaBrokers, Prefix: f.TopicPrefix}
	err := f.secure(&c)
	return c, err
}
