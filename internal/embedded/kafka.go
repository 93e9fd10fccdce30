package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// KafkaConfig configures a cluster. The zero value is one broker on a free loopback port, in
// memory.
type KafkaConfig struct {
	// DataDir is the directory for the cluster's data; created if missing. Empty: in memory.
	DataDir string
	// Listen is host:port; port 0 takes a free one [127.0.0.1:0]. Further brokers take the ports
	// after it, or free ones.
	Listen string
	// Password is what clients must know, as User with SCRAM-SHA-256; empty: nothing.
	Password string
	// Brokers is the number of brokers [1].
	Brokers int
	// Partitions is the number for topics that are created without one [10].
	Partitions int
	// CleanerInterval is the interval of retention [15s]. Topics are compacted at the start only;
	// DESIGN.md gives the reason.
	CleanerInterval time.Duration
	// Virtual replaces TCP; for testing/synctest.
	Virtual *kfake.VirtualNetwork
	// Log receives the cluster's warnings; nil for none.
	Log *slog.Logger
	// Failed is called once, by any goroutine, when the data directory cannot be written (ErrUnwritten).
	// From then on the cluster acknowledges nothing more; the process should end.
	Failed func(error)
	// Options are further options of kfake, e.g. TLS, users and ACLs; not with DataDir.
	Options []kfake.Opt
}

// User is who clients of a cluster with a password are, and SASL the mechanism.
const User, SASL = "dev", "SCRAM-SHA-256"

// Kafka is a Kafka cluster within this process.
type Kafka struct {
	cluster  *kfake.Cluster
	lock     *dirLock
	disk     *disk // nil: in memory
	virtual  *kfake.VirtualNetwork
	password string // empty: none
	stop     chan struct{}
	cleaner  sync.WaitGroup
	ahead    atomic.Int64 // offset of the brokers' clock, in milliseconds
	running  atomic.Bool  // between start and stop, when files are written as a whole or not at all
}

// never is longer than any process runs.
const never = 10 * 365 * 24 * time.Hour

// defaultVirtualPort is used on a virtual network, which has no free ports to give.
const defaultVirtualPort = 9092

// StartKafka starts a cluster, which is ready when StartKafka returns. The error is one line and
// names the remedy.
func StartKafka(cfg KafkaConfig) (*Kafka, error) {
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	host, ports, err := cfg.ports()
	if err != nil {
		return nil, err
	}
	interval := cfg.CleanerInterval
	if interval <= 0 {
		interval = 15 * time.Second
	}
	options := []kfake.Opt{
		kfake.Ports(ports...),
		kfake.ListenFn(cfg.listener(host)),
		kfake.ClusterID("stillhere-standin"),
		kfake.BrokerConfigs(map[string]string{
			"log.cleaner.backoff.ms":  strconv.FormatInt(never.Milliseconds(), 10),
			"state.log.compact.bytes": strconv.Itoa(1 << 20), // a start reads these logs [10 MB]
		}),
	}
	if cfg.Partitions > 0 {
		options = append(options, kfake.DefaultNumPartitions(cfg.Partitions))
	}
	if cfg.Password != "" {
		options = append(options, kfake.EnableSASL(), kfake.Superuser(SASL, User, cfg.Password))
	}
	k := &Kafka{virtual: cfg.Virtual, password: cfg.Password, stop: make(chan struct{})}
	if cfg.DataDir != "" {
		if k.lock, err = lockDir(cfg.DataDir); err != nil {
			return nil, err
		}
		k.disk = &disk{dir: cfg.DataDir, failed: cfg.Failed}
		if err := k.openDir(); err != nil {
			k.lock.release()
			return nil, err
		}
		options = append(options, kfake.DataDir(cfg.DataDir))
	}
	if cfg.Log != nil || k.disk != nil {
		options = append(options, kfake.WithLogger(clusterLog{cfg.Log, k}))
	}
	options = append(options, cfg.Options...)
	if k.cluster, err = kfake.NewCluster(options...); err != nil {
		k.lock.release()
		return nil, explainStart(err, cfg)
	}
	stampAppendTime(k.cluster, &k.ahead)
	refuseLongMetadata(k.cluster)
	k.cleaner.Go(func() { k.clean(interval) })
	if cfg.DataDir != "" {
		k.disk.guard(k.cluster)
		k.running.Store(true)
		if err := k.markAborted(); err != nil {
			k.Close()
			return nil, fmt.Errorf("starting the Kafka stand-in (data directory %q): %w", cfg.DataDir, err)
		}
	}
	return k, nil
}

// clean applies retention. kfake's own cleaner would compact as well.
func (k *Kafka) clean(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			k.cluster.ApplyRetention()
		case <-k.stop:
			return
		}
	}
}

func (cfg *KafkaConfig) ports() (host string, ports []int, err error) {
	host, text, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return "", nil, fmt.Errorf("the Kafka stand-in cannot listen on %q: must be host:port", cfg.Listen)
	}
	first, err := strconv.Atoi(text)
	if err != nil || first < 0 || first > 65535 {
		return "", nil, fmt.Errorf("the Kafka stand-in cannot listen on %q: the port must be a number from 0 to 65535",
			cfg.Listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return "", nil, fmt.Errorf("the Kafka stand-in cannot listen on %q: "+
			"name one address, because clients connect to it", cfg.Listen)
	}
	if first == 0 && cfg.Virtual != nil {
		first = defaultVirtualPort
	}
	for i := range max(cfg.Brokers, 1) {
		if first == 0 {
			ports = append(ports, 0)
		} else {
			ports = append(ports, first+i)
		}
	}
	return host, ports, nil
}

// CheckListen reports whether StartKafka could listen. The error is one line and names the remedy.
func (cfg KafkaConfig) CheckListen() error {
	host, ports, err := cfg.ports()
	if err != nil {
		return err
	}
	for _, port := range ports {
		l, err := cfg.listener(host)("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			return explainStart(err, cfg)
		}
	}
	return nil
}

// listener listens on the configured host instead of the loopback that kfake asks for.
func (cfg *KafkaConfig) listener(host string) func(network, address string) (net.Listener, error) {
	if cfg.Virtual != nil {
		return cfg.Virtual.Listen
	}
	return func(network, address string) (net.Listener, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return new(net.ListenConfig).Listen(context.Background(), network, net.JoinHostPort(host, port))
	}
}

func explainStart(err error, cfg KafkaConfig) error {
	var system *net.OpError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		address := cfg.Listen
		if errors.As(err, &system) && system.Addr != nil {
			address = system.Addr.String()
		}
		return fmt.Errorf("the Kafka stand-in cannot listen on %s: the port is in use; "+
			"stop what holds it or choose another", address)
	case errors.As(err, &system):
		return fmt.Errorf("the Kafka stand-in cannot listen on %s: %w", cfg.Listen, system.Err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("the Kafka stand-in cannot use the data directory %s: %w", cfg.DataDir, err)
	default:
		return fmt.Errorf("starting the Kafka stand-in (data directory %q): %w", cfg.DataDir, err)
	}
}

// Addrs are the addresses of the brokers.
func (k *Kafka) Addrs() []string { return k.cluster.ListenAddrs() }

// Dialer connects clients to a virtual network; nil on TCP.
func (k *Kafka) Dialer() func(ctx context.Context, network, host string) (net.Conn, error) {
	if k.virtual == nil {
		return nil
	}
	return k.virtual.DialContext
}

// Cluster is the kfake cluster, for faults and inspection. A control function of the caller must
// not answer Produce requests, because their records would get no append time.
func (k *Kafka) Cluster() *kfake.Cluster { return k.cluster }

// SetClock sets the offset of the clock by which the brokers stamp records.
func (k *Kafka) SetClock(ahead time.Duration) { k.ahead.Store(ahead.Milliseconds()) }

// Close stops the cluster and, with a data directory, saves what it holds.
func (k *Kafka) Close() {
	close(k.stop)
	k.cleaner.Wait()
	if k.disk != nil && k.disk.blocked.Load() {
		k.lock.release() // the next start reads the directory as after a kill
		return
	}
	k.running.Store(false)
	k.cluster.Close()
	k.lock.release()
}

// openDir prepares the data directory.
func (k *Kafka) openDir() error {
	if err := k.disk.space(); err != nil {
		return err
	}
	// kfake would take the users of the last run for those of this one.
	err := os.Remove(filepath.Join(k.disk.dir, "sasl.json"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = mendTails(k.disk.dir)
	}
	if err == nil {
		err = compactDir(k.disk.dir, time.Now())
	}
	if err != nil {
		return fmt.Errorf("reading the data directory %s of the Kafka stand-in: %w", k.disk.dir, err)
	}
	return nil
}

// clusterLog is what kfake logs. It is also how kfake reports that it could not write, and goes on.
type clusterLog struct {
	log *slog.Logger // nil: none
	of  *Kafka
}

func (l clusterLog) Logf(level kfake.LogLevel, format string, args ...any) {
	line := func() string { return "kafka stand-in: " + fmt.Sprintf(format, args...) }
	if strings.HasPrefix(format, "persist ") && l.of.running.Load() {
		l.of.disk.unwritten(line())
	}
	switch {
	case l.log == nil:
	case strings.HasPrefix(format, "txn: EndTxn slow"): // slower than 5 ms, as usual on a busy machine
		l.log.Debug(line())
	case level == kfake.LogLevelError:
		l.log.Error(line())
	case level == kfake.LogLevelWarn:
		l.log.Warn(line())
	}
}
