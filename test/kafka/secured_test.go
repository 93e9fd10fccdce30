//go:build unix

package kafka_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/golang-jwt/jwt/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/testkit/keystest"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

// secured is Apache Kafka as careful people have it: nobody may do anything that
// was not granted, users log in by every mechanism over TLS (sasl), or show a
// certificate (mtls). At the address of the servers anybody may do everything: the
// brokers use it, and the test that sets them up.
type secured struct {
	*testkit.Servers
	sasl, mtls string
	authority  *keystest.Authority
	issuer     *rsa.PrivateKey // of tokens
	admin      *kadm.Client
}

const securedProperties = `
listeners=PLAINTEXT://127.0.0.1:@PORT@,CONTROLLER://127.0.0.1:@CONTROLLER_PORT@,SASL://SASL_ADDRESS,MTLS://MTLS_ADDRESS
advertised.listeners=PLAINTEXT://127.0.0.1:@PORT@,SASL://SASL_ADDRESS,MTLS://MTLS_ADDRESS
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_SSL,MTLS:SSL
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:super
ssl.keystore.type=PEM
ssl.keystore.location=DIR/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location=AUTHORITY
listener.name.mtls.ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_plain="secret of plain";
listener.name.sasl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
listener.name.sasl.oauthbearer.sasl.server.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler
listener.name.sasl.oauthbearer.sasl.oauthbearer.jwks.endpoint.url=file://DIR/jwks.json
listener.name.sasl.oauthbearer.sasl.oauthbearer.expected.audience=kafka
`

// startSecured starts a broker of that kind, and what options say more.
func startSecured(t *testing.T, options ...string) *secured {
	t.Helper()
	testkit.NeedKafka(t)
	dir := t.TempDir()
	s := &secured{sasl: testkit.FreePort(t), mtls: testkit.FreePort(t), authority: keystest.New(t)}
	s.issuer = newIssuer(t)
	pair := s.authority.Issue("broker", time.Hour)
	must.Do(t, os.WriteFile(filepath.Join(dir, "broker.pem"), []byte(read(t, pair.Key)+read(t, pair.Cert)), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "jwks.json"), s.jwks(t), 0o600))
	properties := filepath.Join(dir, "secured.properties")
	must.Do(t, os.WriteFile(properties, []byte(strings.NewReplacer("SASL_ADDRESS", s.sasl, "MTLS_ADDRESS", s.mtls, "DIR", dir, "AUTHORITY", s.authority.CA).
		Replace(securedProperties)), 0o600))
	// Kafka reads keys of tokens only from where its own command line allows it.
	t.Setenv("JAVA_TOOL_OPTIONS", "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://"+filepath.Join(dir, "jwks.json"))
	s.Servers = testkit.StartServers(t, append(options, "--kafka-properties", properties)...)
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(s.Brokers()...)))(t)
	s.admin = kadm.NewClient(client)
	t.Cleanup(s.admin.Close)
	return s
}

func newIssuer(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	return must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	return string(text)
}

// jwks is the file by which brokers know the issuer's signature.
func (s *secured) jwks(t *testing.T) []byte {
	t.Helper()
	part := base64.RawURLEncoding.EncodeToString
	text, err := json.Marshal(map[string]any{"keys": []map[string]string{{"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256",
		"n": part(s.issuer.N.Bytes()), "e": part(big.NewInt(int64(s.issuer.E)).Bytes())}}})
	must.Do(t, err)
	return text
}

// token is good for a user for as long as life.
func (s *secured) token(user string, life time.Duration) string {
	s.Helper()
	now := time.Now()
	t := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{"sub": user, "aud": "kafka", "iat": now.Add(-time.Hour).Unix(), "exp": now.Add(life).Unix(), "scope": "kafka"})
	t.Header["kid"] = "one"
	signed := must.Get(t.SignedString(s.issuer))(s.T)
	return signed
}

// scramUser makes a user.
func (s *secured) scramUser(mechanism kadm.ScramMechanism, user, password string) {
	s.Helper()
	altered, err := s.admin.AlterUserSCRAMs(context.Background(), nil, []kadm.UpsertSCRAM{{User: user, Mechanism: mechanism, Iterations: 4096, Password: password}})
	if err == nil {
		err = altered.Error()
	}
	must.Do(s.T, err)
}

// way is how somebody shows who he is: settings of the program, and the principal
// that the broker makes of it.
type way struct {
	principal string
	settings  []string
}

// ways are all ways, by what they are called. A user who logs in with SCRAM has a name
// of his own.
func (s *secured) ways() map[string]way {
	s.Helper()
	dir := s.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(s.T, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	tls := []string{"STILLHERE_KAFKA_TLS=true", "STILLHERE_KAFKA_TLS_CA=" + s.authority.CA}
	at := func(address string, more ...string) []string {
		return append(append([]string{"STILLHERE_KAFKA_BROKERS=" + address}, tls...), more...)
	}
	s.scramUser(kadm.ScramSha256, "scram256", "secret of scram256")
	s.scramUser(kadm.ScramSha512, "scram512", "secret of scram512")
	mine := s.authority.Issue("certified", time.Hour)
	return map[string]way{
		"PLAIN": {"User:plain", at(s.sasl, "STILLHERE_KAFKA_SASL=PLAIN", "STILLHERE_KAFKA_USER=plain", "STILLHERE_KAFKA_PASSWORD=secret of plain")},
		"SCRAM-SHA-256": {"User:scram256", at(s.sasl, "STILLHERE_KAFKA_SASL=SCRAM-SHA-256", "STILLHERE_KAFKA_USER=scram256",
			"STILLHERE_KAFKA_PASSWORD_FILE="+file("scram256", "secret of scram256\n"))},
		"SCRAM-SHA-512": {"User:scram512", at(s.sasl, "STILLHERE_KAFKA_SASL=SCRAM-SHA-512", "STILLHERE_KAFKA_USER=scram512",
			"STILLHERE_KAFKA_PASSWORD=secret of scram512")},
		"OAUTHBEARER": {"User:token", at(s.sasl, "STILLHERE_KAFKA_SASL=OAUTHBEARER",
			"STILLHERE_KAFKA_OAUTH_TOKEN_FILE="+file("token", s.token("token", time.Hour)))},
		"mutual TLS": {"User:CN=certified", at(s.mtls, "STILLHERE_KAFKA_TLS_CERT="+mine.Cert, "STILLHERE_KAFKA_TLS_KEY="+mine.Key)},
	}
}

func (w way) with(settings ...string) way {
	return way{w.principal, append(append([]string{}, w.settings...), settings...)}
}
