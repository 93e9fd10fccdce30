package embedded

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// markTimeout bounds what is done to a cluster before anybody else may use it.
const markTimeout = 30 * time.Second

// markAborted writes abort markers for every transactional producer that has no
// transaction under way.
//
// A transaction that was open when the process was killed is aborted by kfake when
// it loads the data, but only in its index: the log gets no marker. Readers are
// then told that the producer aborted, wait for the marker, and drop everything
// that the same producer has committed since. And when kfake is killed once more,
// that commit's marker counts for the old records as well. A marker that ends
// nothing does no harm.
//
// Topics with LogAppendTime are left out: heartbeats, which are never written in a
// transaction, and whose readers take note of every hole.
func (k *Kafka) markAborted() error {
	ctx, cancel := context.WithTimeout(context.Background(), markTimeout)
	defer cancel()
	options := []kgo.Opt{kgo.SeedBrokers(k.Addrs()...)}
	if k.virtual != nil {
		options = append(options, kgo.Dialer(k.virtual.DialContext))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return fmt.Errorf("ending transactions from before: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	producers, err := admin.DescribeTransactions(ctx) // of all
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
			markers = append(markers, kadm.TxnMarkers{ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch, Topics: all})
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
