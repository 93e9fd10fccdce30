package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/kafka/registry"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/sqlite"
	"github.com/stillhere/stillhere/schemas"
)

// Dev says how to run everything in one process.
type Dev struct {
	Config
	// DataDir keeps Kafka's data and SQLite's file across restarts.
	DataDir string
	// KafkaListen is where other Kafka clients may connect without a password, host:port. Empty: a free port of
	// the loopback, for those who can read PasswordFile in DataDir.
	KafkaListen string
	// RedisAddr is a Redis to use, host:port; empty: one inside the process.
	RedisAddr string
	// Partitions is the number of partitions of new topics.
	Partitions int32
}

// quick is how often dev commits and looks how far it is.
const quick = 250 * time.Millisecond

// DevAddresses are where dev can be reached, host:port each, with the ports that were taken where the
// configuration leaves the choice.
type DevAddresses struct{ HTTP, Kafka string }

// RunDev runs every role on servers inside this process, with the wiring of
// production, until ctx ends. started is called when everything is ready.
func RunDev(ctx context.Context, dev Dev, log *slog.Logger, started func(DevAddresses)) (err error) {
	if err := dev.check(); err != nil {
		return err
	}
	if err := dataDir(dev.DataDir); err != nil {
		return err
	}
	config := dev.Config
	private, err := config.Kafka.protect(&dev)
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	stand, err := embedded.StartKafka(embedded.KafkaConfig{
		Failed:  func(err error) { log.Error("dev stops", "error", err); fail(err) },
		DataDir: filepath.Join(dev.DataDir, "kafka"), Listen: dev.KafkaListen, Password: private,
		Partitions: int(dev.Partitions), Log: log,
	})
	if err != nil {
		return err
	}
	defer stand.Close()
	config.ConsoleAtRoot = true
	if err := dev.ensureMaster(&config.Kafka); err != nil {
		return err
	}
	made, err := config.Kafka.ensureKey(filepath.Join(dev.DataDir, IdentityFile))
	if err != nil {
		return err
	}
	if config.Redis.Addrs = []string{dev.RedisAddr}; dev.RedisAddr == "" {
		config.Redis.Password = rand.Text() // the machine has other users
		redis, err := embedded.StartRedis(embedded.RedisConfig{Listen: "127.0.0.1:0", Password: config.Redis.Password})
		if err != nil {
			return err
		}
		defer redis.Close()
		config.Redis.Addrs = []string{redis.Addr()}
		config.Lastseen.NewRedis = true
	}
	config.Kafka.Brokers = stand.Addrs()
	config.Store = Store{SQLite: filepath.Join(dev.DataDir, "stillhere.db")}
	config.Graph = Store{SQLite: filepath.Join(dev.DataDir, GraphFile)}
	for file, remedy := range map[string]string{
		config.Store.SQLite: "stillhere rebuild lastseen",
		config.Graph.SQLite: "stillhere graph edges --file",
	} {
		if err := sqlite.CheckIntact(ctx, file); errors.Is(err, sqlite.ErrCorrupt) {
			return fmt.Errorf("%w; put a copy of the data directory in its place, or move this file away (with its -wal and -shm), start again and fill the new one with %s", err, remedy)
		} else if err != nil {
			return err
		}
	}
	// With one process and few users, freshness costs nothing.
	config.Kafka.IdleCommitInterval, config.Kafka.WatermarkInterval = quick, quick
	cluster, err := config.Kafka.cluster()
	if err != nil {
		return err
	}
	cluster.InstanceName, cluster.Version = config.Instance, config.Version
	cluster.Retention = config.Retention
	cluster.Retention.Status = 0 // the embedded Kafka compacts at its start
	setUp, cancel := context.WithTimeout(ctx, 30*time.Second)
	_, err = admin.ApplyTopics(setUp, cluster, dev.Partitions, 1)
	if err == nil && config.SchemaRegistry != "" {
		_, err = registry.Register(setUp, config.SchemaRegistry, cluster.Prefix)
	}
	cancel()
	if other := new(admin.OtherIdentity); errors.As(err, &other) {
		if made { // for nothing
			err = os.Remove(config.Kafka.IdentityKeyFile)
		}
		return errors.Join(dev.explain(other), err)
	}
	if err != nil {
		return fmt.Errorf("setting up the topics: %w", err)
	}
	if err := changePolicy(ctx, cluster, config.asked(), log); err != nil {
		return err
	}
	at := DevAddresses{Kafka: stand.Addrs()[0]}
	config.Listener = at.note(config.Listen, config.Listener)
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, "all", config, log, func() { started(at) }) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), embedded.ErrUnwritten) {
			err = <-ended
			break
		}
		// Kafka is gone: what the roles would still write fails after timeouts of up to a minute.
		over := time.NewTimer(unwrittenGrace)
		defer over.Stop()
		select {
		case err = <-ended:
		case <-over.C:
		}
	}
	if cause := context.Cause(ctx); errors.Is(cause, embedded.ErrUnwritten) {
		return cause // what else failed followed from it
	}
	return err
}

// unwrittenGrace is how long roles may take to stop after the data directory could not be written. The program ends
// then, as by a kill, and its next start finds everything that it acknowledged.
const unwrittenGrace = 5 * time.Second

// note wraps open, which stands for net.Listen when it is nil: it notes in HTTP where the first listener for
// address is. The host stays as it is given.
func (at *DevAddresses) note(address string, open func(network, address string) (net.Listener, error)) func(string, string) (net.Listener, error) {
	if open == nil {
		open = net.Listen
	}
	at.HTTP = address
	noted := false
	return func(network, asked string) (net.Listener, error) {
		l, err := open(network, asked)
		if err != nil || noted || asked != address {
			return l, err
		}
		noted = true
		host, _, _ := net.SplitHostPort(address) // was checked
		if _, port, err := net.SplitHostPort(l.Addr().String()); err == nil {
			at.HTTP = net.JoinHostPort(host, port)
		}
		return l, nil
	}
}

// IdentityFile is the identity key in the data directory of dev.
const IdentityFile = "identity.key"

// PasswordFile is the password of Kafka in the data directory of dev.
const PasswordFile = "kafka-password"

// FrameKeysFile is the master that signs heartbeats, in the data directory of dev.
const FrameKeysFile = "frame.keys"

// ensureMaster makes the master unless the file has one, the user gave one or nobody is authenticated. Where callers
// are authenticated, writers of heartbeats are, too.
func (dev *Dev) ensureMaster(k *Kafka) error {
	if !dev.Auth.On() || k.FrameKeys != "" {
		return nil
	}
	k.FrameKeys = filepath.Join(dev.DataDir, FrameKeysFile)
	if _, err := ensureSecret(k.FrameKeys, func() string { return signing.NewMaster().Hex() }); err != nil {
		return fmt.Errorf("creating the master of the frame keys: %w", err)
	}
	return nil
}

// protect gives dev's Kafka a password, unless other clients may connect: other users of the machine can
// reach its port.
func (k *Kafka) protect(dev *Dev) (password string, err error) {
	if dev.KafkaListen != "" {
		return "", nil
	}
	k.SASL, k.User, k.PasswordFile = embedded.SASL, embedded.User, filepath.Join(dev.DataDir, PasswordFile)
	if _, err := ensureSecret(k.PasswordFile, rand.Text); err != nil {
		return "", fmt.Errorf("creating the password of Kafka: %w", err)
	}
	text, err := os.ReadFile(k.PasswordFile)
	if password = strings.TrimSpace(string(text)); err == nil && password == "" {
		err = fmt.Errorf("%s is empty: remove it, and dev makes a new one", k.PasswordFile)
	}
	return password, err
}

// ensureKey makes an identity key in the file unless it has one, the user gave one or users have no names.
func (k *Kafka) ensureKey(file string) (made bool, err error) {
	if !k.needsKey() {
		return false, nil
	}
	k.IdentityKeyFile = file
	if made, err = ensureSecret(file, func() string { return identity.NewKey().Hex() }); err != nil {
		err = fmt.Errorf("creating the identity key: %w", err)
	}
	return made, err
}

// ensureSecret makes the file with a secret unless it is there.
func ensureSecret(file string, secret func() string) (made bool, err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = fmt.Fprintln(f, secret())
	if err = errors.Join(err, f.Close()); err != nil {
		return false, errors.Join(err, os.Remove(file)) // a part of a secret would be taken for one
	}
	return true, nil
}

// needsKey reports whether users have names and nobody gave a key.
func (k *Kafka) needsKey() bool {
	return k.IDs == string(identity.Text) && k.IdentityKey == "" && k.IdentityKeyFile == ""
}

// explain says how to start on data whose users are named otherwise.
func (dev *Dev) explain(other *admin.OtherIdentity) error {
	return fmt.Errorf("the data directory %[1]s %[2]s; give dev what the data has (stillhere identity --data-dir %[1]s prints it), or another --data-dir",
		filepath.Clean(dev.DataDir), other.Difference())
}

// DevIdentity is how the users of a data directory of dev are named; the zero value in int mode. No dev may
// be running on it.
func DevIdentity(ctx context.Context, dir string) (p schemas.PipelineIdentity, err error) {
	dir = filepath.Join(dir, "kafka")
	if _, err := os.Stat(dir); err != nil {
		return p, fmt.Errorf("data directory: %w", err)
	}
	c := Kafka{SASL: embedded.SASL, User: embedded.User, Password: rand.Text()}
	stand, err := embedded.StartKafka(embedded.KafkaConfig{DataDir: dir, Password: c.Password})
	if err != nil {
		return p, err
	}
	defer stand.Close()
	c.Brokers = stand.Addrs()
	cluster, err := c.cluster()
	if err != nil {
		return p, err
	}
	return admin.Identity(ctx, cluster)
}

// check finds faults before anything is created.
func (dev *Dev) check() error {
	var all faults.List
	all.Add(dev.Policy.Validate(), dev.HTTP.validate(dev.Auth.On()), dev.Auth.validate(dev.Listen),
		dev.AdminServer.validate(), dev.Expand.Validate(), dev.Retention.Validate(), dev.Lastseen.Validate())
	if !dev.Kafka.needsKey() {
		_, err := dev.Kafka.cluster()
		all.Add(err)
	}
	all.If(dev.Partitions < 1, "partitions: must be at least 1, is %d", dev.Partitions)
	if err := all.Err(); err != nil {
		return err
	}
	for _, address := range []string{dev.Listen, dev.Admin} {
		if address == "" {
			continue // Admin: nowhere
		}
		l, err := listen(dev.Listener, address)
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	if dev.KafkaListen == "" {
		return nil
	}
	return embedded.KafkaConfig{Listen: dev.KafkaListen}.CheckListen()
}
