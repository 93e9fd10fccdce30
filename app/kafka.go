package app

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
)

// Kafka says how to reach Kafka, and as whom. The tags describe the flags of the command
// line that set the fields. Files are read again for every connection.
type Kafka struct {
	Brokers []string `name:"kafka-brokers" help:"Bootstrap addresses, host:port." default:"${kafka_brokers}"`
	Prefix  string   `name:"topic-prefix" help:"Prefix of the topic names." default:"presence."`

	TLS     bool   `name:"kafka-tls" help:"Connect with TLS."`
	TLSCA   string `name:"kafka-tls-ca" help:"File with the CA certificates to trust (PEM). Default: the system's." type:"path"`
	TLSCert string `name:"kafka-tls-cert" help:"File with this client's certificate (PEM), for mutual TLS." type:"path"`
	TLSKey  string `name:"kafka-tls-key" help:"File with this client's key (PEM)." type:"path"`

	SASL         string `name:"kafka-sasl" help:"SASL mechanism: ${enum}." enum:",PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER" default:""`
	User         string `name:"kafka-user" help:"User for --kafka-sasl."`
	Password     string `name:"kafka-password" secret:"" hidden:""`
	PasswordFile string `name:"kafka-password-file" help:"File with the password for --kafka-user, read again for every connection. Or set STILLHERE_KAFKA_PASSWORD." type:"path"`

	TokenFile       string `name:"kafka-oauth-token-file" help:"File with the token for OAUTHBEARER, read again for every connection." type:"path"`
	OAuthURL        string `name:"kafka-oauth-url" help:"Token endpoint for OAUTHBEARER (client credentials), in place of a token file."`
	OAuthClient     string `name:"kafka-oauth-client-id" help:"Client id for the token endpoint."`
	OAuthSecret     string `name:"kafka-oauth-client-secret" secret:"" hidden:""`
	OAuthSecretFile string `name:"kafka-oauth-client-secret-file" help:"File with the client secret. Or set STILLHERE_KAFKA_OAUTH_CLIENT_SECRET." type:"path"`
	OAuthScope      string `name:"kafka-oauth-scope" help:"Scopes to request, separated by spaces."`

	IDs             string `name:"ids" help:"How callers name users: ${enum}. int: positive 64-bit integers. text: names, also UUIDs, within tenants. A pipeline keeps what it began with." enum:"int,text" default:"int"`
	IdentityKey     string `name:"identity-key" secret:"" hidden:""`
	IdentityKeyFile string `name:"identity-key-file" help:"With --ids text: file with the key of which ids are computed, 32 hexadecimal digits. It cannot be changed. Or set STILLHERE_IDENTITY_KEY." type:"path"`

	FrameKeys string `name:"frame-keys" help:"File with the masters of the keys that sign heartbeats, one a line (stillhere keys master), read again while processes run. With it detectors take signed heartbeats only. Needed by ingest and detector where callers are authenticated and brokers are on other machines." type:"path"`

	// Dialer replaces the network, e.g. in virtual time.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error) `kong:"-"`

	// TickInterval [250ms] is the time between two ticks that the detector, where something is due, appends to a
	// partition, IdleCommitInterval [1s] the longest time that consumed offsets wait for a
	// commit, WatermarkInterval [1s] the time between two looks at the detector's progress.
	TickInterval, IdleCommitInterval, WatermarkInterval time.Duration `kong:"-"`
	// SessionTimeout [6s] is how long a group waits for a silent member, RebalanceTimeout
	// [10s] how long members may take to give up partitions, StallTimeout [15s] how long a
	// partition may make no progress before its session is restarted.
	SessionTimeout, RebalanceTimeout, StallTimeout time.Duration `kong:"-"`
}

// onLoopback reports whether this machine alone reaches the brokers.
func (k Kafka) onLoopback() bool {
	return !slices.ContainsFunc(k.Brokers, func(broker string) bool { return !onLoopback(broker) })
}

func (k Kafka) cluster() (kafka.Config, error) { return kafka.Settings(k).Config() }
