package embedded

import (
	"encoding/binary"
	"hash/crc32"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Places in a version 2 record batch, from its first byte.
const (
	batchLengthAt    = 8 // of what follows the length itself
	batchMagicAt     = 16
	batchCRCAt       = 17
	batchChecksummed = 21 // the checksum covers everything from here
	firstTimestampAt = 27
	maxTimestampAt   = 35
	batchHeaderSize  = 61
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// stampAppendTime makes the cluster honour message.timestamp.type=LogAppendTime,
// which kfake stores but does not apply: it puts the time of arrival in the
// header of every batch for such a topic. ahead is how many milliseconds the
// brokers' clock is ahead.
func stampAppendTime(cluster *kfake.Cluster, ahead *atomic.Int64) {
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		produce := request.(*kmsg.ProduceRequest)
		for i := range produce.Topics {
			topic := &produce.Topics[i]
			if !wantsAppendTime(cluster, topic) {
				continue
			}
			now := time.Now().UnixMilli() + ahead.Load()
			for j := range topic.Partitions {
				restamp(topic.Partitions[j].Records, now)
			}
		}
		return nil, nil, false
	})
}

func wantsAppendTime(cluster *kfake.Cluster, topic *kmsg.ProduceRequestTopic) bool {
	var info *kfake.TopicInfo
	if topic.Topic != "" {
		info = cluster.TopicInfo(topic.Topic)
	} else {
		info = cluster.TopicIDInfo(topic.TopicID)
	}
	return stampsAppendTime(info)
}

// stampsAppendTime tells whether a topic wants the time of arrival in its records.
func stampsAppendTime(info *kfake.TopicInfo) bool {
	if info == nil {
		return false
	}
	kind := info.Configs["message.timestamp.type"]
	return kind != nil && *kind == "LogAppendTime"
}

// restamp moves the times of the batches in records so that the last record of
// each is at now. The records' distances within a batch stay, because they may
// be compressed; so a batch that waited long at its producer has first records
// from before, which a running maximum forgives, but nothing from the future,
// which it would not. What is not a whole batch is left for the broker to
// refuse.
func restamp(records []byte, now int64) {
	for len(records) >= batchHeaderSize {
		length := int64(binary.BigEndian.Uint32(records[batchLengthAt:]))
		size := length + batchLengthAt + 4
		if size > int64(len(records)) || size < batchHeaderSize || records[batchMagicAt] != 2 {
			return
		}
		batch := records[:size]
		records = records[size:]
		if crc32.Checksum(batch[batchChecksummed:], castagnoli) != binary.BigEndian.Uint32(batch[batchCRCAt:]) {
			continue
		}
		first := int64(binary.BigEndian.Uint64(batch[firstTimestampAt:]))
		last := int64(binary.BigEndian.Uint64(batch[maxTimestampAt:]))
		spread := max(last-first, 0)
		binary.BigEndian.PutUint64(batch[firstTimestampAt:], uint64(now-spread))
		binary.BigEndian.PutUint64(batch[maxTimestampAt:], uint64(now))
		binary.BigEndian.PutUint32(batch[batchCRCAt:], crc32.Checksum(batch[batchChecksummed:], castagnoli))
	}
}
