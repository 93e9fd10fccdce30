package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// KafkaConfig says what kind of cluster to start. The zero value is one broker
// on a free port of the loopback, all in memory.
type KafkaConfig struct {
	// DataDir keeps the cluster's data on disk; it is made if it is missing. Empty:
	// in memory.
	DataDir string
	// AcceptDataLoss goes on with what is whole in a data directory that is damaged;
	// without it that is an error (ErrCorrupt).
	AcceptDataLoss bool
	// Listen is host:port; port 0 takes a free one [127.0.0.1:0]. With several
	// brokers the port is the first one's and the others follow, or all are free.
	Listen string
	// Brokers is how many there are [1].
	Brokers int
	// Partitions is how many a topic gets that is made without a number [10].
	Partitions int
	// CleanerInterval is how often retention runs [15s]. Topics are never compacted;
	// DESIGN.md tells why.
	CleanerInterval time.Duration
	// Virtual is the network to listen on in place of TCP; for testing/synctest.
	Virtual *kfake.VirtualNetwork
	// Log gets the cluster's warnings; nil for none.
	Log *slog.Logger
	// Options are more of kfake's own, e.g. TLS, users and ACLs; not with DataDir.
	Options []kfake.Opt
}

// Kafka is a Kafka cluster within this process.
type Kafka struct {
	cluster *kfake.Cluster
	lock    *dirLock
	sums    *recorder // nil: in memory
	virtual *kfake.VirtualNetwork
	stop    chan struct{}
	cleaner sync.WaitGroup
	log     *slog.Logger // nil: none
	ahead   atomic.Int64 // of the brokers' clock, in milliseconds
}

// recordEvery is how often it is looked whether checksums have to be taken anew.
const recordEvery = time.Second

// never is longer than any stand-in lives.
const never = 10 * 365 * 24 * time.Hour

// defaultVirtualPort is used where there is no operating system to ask for a
// free one.
const defaultVirtualPort = 9092

// StartKafka starts a cluster; it is ready when StartKafka returns. An error is
// one line that says what to do.
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
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": strconv.FormatInt(never.Milliseconds(), 10)}),
	}
	if cfg.Partitions > 0 {
		options = append(options, kfake.DefaultNumPartitions(cfg.Partitions))
	}
	if cfg.Log != nil {
		options = append(options, kfake.WithLogger(clusterLog{cfg.Log}))
	}
	options = append(options, cfg.Options...)
	k := &Kafka{virtual: cfg.Virtual, log: cfg.Log, stop: make(chan struct{})}
	if cfg.DataDir != "" {
		if k.lock, err = lockDir(cfg.DataDir); err != nil {
			return nil, err
		}
		if err := k.openDir(cfg); err != nil {
			k.lock.release()
			return nil, err
		}
		options = append(options, kfake.DataDir(cfg.DataDir))
	}
	if k.cluster, err = kfake.NewCluster(options...); err != nil {
		k.closeDir(false)
		return nil, explainStart(err, cfg)
	}
	stampAppendTime(k.cluster, &k.ahead)
	k.cleaner.Go(func() { k.clean(interval) })
	if cfg.DataDir != "" {
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
	var record <-chan time.Time // none in memory, where time may be virtual
	if k.sums != nil {
		t := time.NewTicker(recordEvery)
		defer t.Stop()
		record = t.C
	}
	for {
		select {
		case <-ticker.C:
			k.cluster.ApplyRetention()
		case <-record:
			k.warn(k.sums.record(false))
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
		return "", nil, fmt.Errorf("the Kafka stand-in cannot listen on %q: the port must be a number from 0 to 65535", cfg.Listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return "", nil, fmt.Errorf("the Kafka stand-in cannot listen on %q: name one address, it is what clients are told to connect to", cfg.Listen)
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

// CheckListen tells whether StartKafka can listen, without starting anything. An
// error is one line that says what to do.
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

// listener puts the configured host in place of the loopback that kfake asks
// for.
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
		return fmt.Errorf("the Kafka stand-in cannot listen on %s: the port is in use; stop what holds it or choose another", address)
	case errors.As(err, &system):
		return fmt.Errorf("the Kafka stand-in cannot listen on %s: %w", cfg.Listen, system.Err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("the Kafka stand-in cannot use the data directory %s: %w", cfg.DataDir, err)
	default:
		return fmt.Errorf("starting the Kafka stand-in (data directory %q): %w", cfg.DataDir, err)
	}
}

// Addrs are the brokers' addresses, for clients.
func (k *Kafka) Addrs() []string { return k.cluster.ListenAddrs() }

// Dialer connects clients to a virtual network; nil on TCP, where no dialer is
// needed.
func (k *Kafka) Dialer() func(ctx context.Context, network, host string) (net.Conn, error) {
	if k.virtual == nil {
		return nil
	}
	return k.virtual.DialContext
}

// Cluster is the cluster itself, for faults and for looking inside. Nothing may
// be answered for Produce requests without stamping them.
func (k *Kafka) Cluster() *kfake.Cluster { return k.cluster }

// SetClock puts the clock by which the brokers stamp records so far ahead of the
// true time; less than zero puts it behind.
func (k *Kafka) SetClock(ahead time.Duration) { k.ahead.Store(ahead.Milliseconds()) }

// Close stops the cluster and, with a data directory, saves what it holds.
func (k *Kafka) Close() {
	close(k.stop)
	k.cleaner.Wait()
	k.cluster.Close()
	k.closeDir(true)
}

// openDir makes sure that the data directory is whole before the cluster reads it.
func (k *Kafka) openDir(cfg KafkaConfig) error {
	err := makeWhole(cfg.DataDir, cfg.AcceptDataLoss, cfg.Log)
	if err != nil {
		return err
	}
	if k.sums, err = newRecorder(cfg.DataDir); err == nil {
		err = k.sums.record(false) // nothing has to be as at the last stop any more
	}
	if err != nil {
		return fmt.Errorf("writing checksums into the data directory %s: %w", cfg.DataDir, err)
	}
	return nil
}

// closeDir lets go of the data directory, if there is one. clean says that the cluster
// has stopped and saved what it held.
func (k *Kafka) closeDir(clean bool) {
	if k.sums != nil {
		if clean {
			k.warn(k.sums.record(true))
		}
		k.sums.release()
	}
	k.lock.release()
}

// warn logs that checksums could not be written: damage to those files may then not be
// found.
func (k *Kafka) warn(err error) {
	if err != nil && k.log != nil {
		k.log.Warn("writing the checksums of the Kafka stand-in", "error", err)
	}
}

type clusterLog struct{ log *slog.Logger }

func (l clusterLog) Logf(level kfake.LogLevel, format string, args ...any) {
	switch {
	case strings.HasPrefix(format, "txn: EndTxn slow"): // than 5 ms, which on a busy machine means nothing
		l.log.Debug("kafka stand-in: " + fmt.Sprintf(format, args...))
	case level == kfake.LogLevelError:
		l.log.Error("kafka stand-in: " + fmt.Sprintf(format, args...))
	case level == kfake.LogLevelWarn:
		l.log.Warn("kafka stand-in: " + fmt.Sprintf(format, args...))
	}
}
