package embedded

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// markTimeout bounds markAborted, before which no client may use the cluster.
const markTimeout = 30 * time.Second

// markAborted writes abort markers for every transactional producer without an open transaction.
//
// When kfake loads its data, it aborts a transaction that was open at a kill only in its index,
// without a marker in the log. Readers then learn of an aborted producer, wait for its marker, and
// drop everything that the producer has committed since. After another kill the marker of that
// commit would count for the old records too. A marker that ends no transaction is harmless.
//
// Topics with LogAppendTime get none: heartbeats are never written in a transaction, and their
// readers notice every gap.
func (k *Kafka) markAborted() error {
	ctx, cancel := context.WithTimeout(context.Background(), markTimeout)
	defer cancel()
	options := []kgo.Opt{kgo.SeedBrokers(k.Addrs()...)}
	if k.virtual != nil {
		options = append(options, kgo.Dialer(k.virtual.DialContext))
	}
	if k.password != "" {
		options = append(options, kgo.SASL(scram.Auth{User: User, Pass: k.password}.AsSha256Mechanism()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return fmt.Errorf("ending transactions from before: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	producers, err := admin.DescribeTransactions(ctx) // of all producers
	if err != nil {
		return fmt.Errorf("looking for transactions from before: %w", err)
	}
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("looking for transactions from before: %w", err)
	}
	all := topics.TopicsSet()
	for name := range all {
		if stampsAppendTime(k.cluster.TopicInfo(name)) {
			delete(all, name)
		}
	}
	var markers []kadm.TxnMarkers
	for _, producer := range producers {
		if producer.Err == nil && producer.State != "Ongoing" && len(all) > 0 {
			markers = append(markers, kadm.TxnMarkers{ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch,
				Topics: all})
		}
	}
	if len(markers) == 0 {
		return nil
	}
	answers, err := admin.WriteTxnMarkers(ctx, markers...)
	answers.EachPartition(func(p kadm.TxnMarkersPartitionResponse) {
		if err == nil {
			err = p.Err
		}
	})
	if err != nil {
		return fmt.Errorf("ending transactions from before: %w", err)
	}
	return nil
}
