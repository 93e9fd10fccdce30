package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/schemas"
)

const (
	fetchMaxBytes     = 32 << 20
	fetchPartitionMax = 1 << 20
	brokerMaxRead     = 128 << 20
	concurrentFetches = 3
	// fetchMaxWait bounds how long a fetch waits for records. A paused partition is fetched again
	// only after a fetch that is under way without it.
	fetchMaxWait = 2 * time.Second
)

// NewClient opens a client with the options that all clients share.
func NewClient(cfg Config, log *slog.Logger, more ...kgo.Opt) (*kgo.Client, error) {
	options, err := ClientOptions(cfg, log)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("setting up a Kafka client for %v: %w", cfg.Brokers, err)
	}
	return client, nil
}

// ClientOptions are the options that all clients share.
func ClientOptions(cfg Config, log *slog.Logger) ([]kgo.Opt, error) {
	security, err := cfg.Security.options()
	if err != nil {
		return nil, err
	}
	options := append([]kgo.Opt{
		kgo.SeedBrokers(cfg.Brokers...),
		kgo.ClientID(cfg.ClientID),
		kgo.WithLogger(clientLog{log}),
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.RetryBackoffFn(Backoff),
		kgo.BrokerMaxReadBytes(brokerMaxRead),
		kgo.DisableClientMetrics(),
	}, security...)
	if cfg.Dialer != nil {
		options = append(options, kgo.Dialer(cfg.Dialer))
	}
	return options, nil
}

// FetchOptions bound the memory of a consumer: at most concurrentFetches answers wait for it.
func FetchOptions(cfg Config) []kgo.Opt {
	return []kgo.Opt{
		kgo.MaxConcurrentFetches(concurrentFetches),
		kgo.FetchMaxWait(fetchMaxWait),
		kgo.FetchMaxBytes(fetchMaxBytes),
		kgo.FetchMaxPartitionBytes(fetchPartitionMax),
		kgo.MaxDecompressBatchBytes(cfg.MaxBatchBytes),
	}
}

// Backoff is 50 ms, doubled at every try, up to a second.
func Backoff(tries int) time.Duration {
	return min(50*time.Millisecond<<min(max(tries-1, 0), 6), time.Second)
}

// Pause waits for d; it returns false if ctx ends first.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// clientLog logs the warnings of the client.
type clientLog struct{ log *slog.Logger }

func (clientLog) Level() kgo.LogLevel { return kgo.LogLevelWarn }

func (l clientLog) Log(level kgo.LogLevel, message string, pairs ...any) {
	at := slog.LevelWarn
	if level == kgo.LogLevelError {
		at = slog.LevelError
	}
	for i := range pairs {
		if err, ok := pairs[i].(error); ok {
			pairs[i] = ExplainConnection(err)
		}
		if pairs[i] == "err" && i%2 == 0 {
			pairs[i] = "error"
		}
	}
	message = strings.TrimSuffix(message, " (is SASL missing?)") // also said when a broker stops
	pairs = append(pairs, "dependency", "kafka")
	l.log.Log(context.Background(), at, "kafka client: "+message, pairs...)
}

// FromKafka converts a record of the client without copying bytes. It uses the memory of headers.
func FromKafka(to *schemas.Record, from *kgo.Record, headers []schemas.Header) []schemas.Header {
	headers = headers[:0]
	for i := range from.Headers {
		headers = append(headers, schemas.Header(from.Headers[i]))
	}
	*to = schemas.Record{
		Partition: from.Partition, Offset: from.Offset, Time: schemas.MillisOf(from.Timestamp),
		Key: from.Key, Value: from.Value, Headers: headers,
	}
	return headers
}

// ToKafka fills in a record of the client for the named topic. head precedes the value.
func ToKafka(record *kgo.Record, topic string, head []byte, out *schemas.Outgoing) {
	record.Topic, record.Partition, record.Key, record.Value = topic, out.Partition, out.Key, out.Value
	if out.Time != 0 {
		record.Timestamp = out.Time.Time()
	}
	if len(head) > 0 && len(out.Value) > 0 {
		record.Value = append(append(make([]byte, 0, len(head)+len(out.Value)), head...), out.Value...)
	}
	for i := range out.Headers {
		record.Headers = append(record.Headers, kgo.RecordHeader(out.Headers[i]))
	}
}

// OpenTimeout bounds the requests at the start of a session, about ten in sequence: a broker that
// takes two seconds for each is slow, not gone.
const OpenTimeout = 30 * time.Second
