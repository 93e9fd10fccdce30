package client

import (
	"context"
	"crypto/tls"
	"net"
	"slices"

	"github.com/stillhere/stillhere/internal/faults"
)

// Kafka is how to reach Kafka. Brokers is required.
type Kafka struct {
	// Brokers are bootstrap addresses, host:port.
	Brokers []string
	// TopicPrefix is the prefix of the names of topics ["presence."].
	TopicPrefix string
	// TLS encrypts connections; nil: plain text, unless TLSFiles is set.
	TLS *tls.Config
	// TLSFiles configures TLS by files, instead of TLS. They are read for each connection, so
	// renewed certificates need no restart.
	TLSFiles *TLSFiles
	// SASL is "" for none, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.
	SASL string
	// User and Password are for PLAIN and SCRAM.
	User, Password string
	// PasswordFile is a file with the password, instead of Password. It is read for each
	// connection.
	PasswordFile string
	// Credentials returns user and password for each connection, instead of the three fields above.
	// Several goroutines may call it at a time.
	Credentials func(ctx context.Context) (user, password string, err error)
	// Token returns a token for each connection, for OAUTHBEARER. See TokenFile and
	// ClientCredentials.
	Token TokenSource
	// Dial opens connections [net.Dialer]. It cannot be set together with TLS; with TLSFiles the
	// handshake uses its connections.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// TLSFiles names files, all in PEM.
type TLSFiles struct {
	// CA has the trusted authorities [those of the system].
	CA string
	// Cert and Key are those of this client, for mutual TLS; both or none.
	Cert, Key string
	// ServerName is the name that the brokers' certificates must have [the host's name].
	ServerName string
}

var mechanisms = []string{"", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}

// Validate reports all faults, joined.
func (k Kafka) Validate() error {
	var all faults.List
	all.Field(len(k.Brokers) == 0, "kafka.brokers", "must have at least one address, such as localhost:9092")
	for _, broker := range k.Brokers {
		_, _, err := net.SplitHostPort(broker)
		all.Field(err != nil, "kafka.brokers", "must be host:port")
	}
	all.Field(k.TLS != nil && k.TLSFiles != nil, "kafka.tls_files", "must not be set together with tls")
	all.Field(k.TLS != nil && k.Dial != nil, "kafka.dial", "must not be set together with tls")
	if f := k.TLSFiles; f != nil {
		all.Field((f.Cert == "") != (f.Key == ""), "kafka.tls_files.key", "must be set together with tls_files.cert")
	}
	all.Field(!slices.Contains(mechanisms, k.SASL), "kafka.sasl",
		"must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER")
	bearer := k.SASL == "OAUTHBEARER"
	all.Field(bearer && k.Token == nil, "kafka.token", "must be set for OAUTHBEARER")
	all.Field(!bearer && k.Token != nil, "kafka.token", "is for OAUTHBEARER")
	named := k.User != "" || k.Credentials != nil
	all.Field(k.SASL != "" && !bearer && !named, "kafka.user", "must be set for "+k.SASL)
	all.Field(k.SASL == "" && named, "kafka.sasl", "must be set where there is a user")
	all.Field(k.Password != "" && k.PasswordFile != "", "kafka.password_file", "must not be set together with password")
	return all.Err()
}
