package embedded

import (
	"encoding/binary"
	"hash/crc32"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Positions in a version 2 record batch, in bytes from its start.
const (
	batchLengthAt    = 8 // of the bytes after the length field
	batchMagicAt     = 16
	batchCRCAt       = 17
	batchChecksummed = 21 // the checksum covers everything from here
	firstTimestampAt = 27
	maxTimestampAt   = 35
	batchHeaderSize  = 61
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// stampAppendTime applies message.timestamp.type=LogAppendTime, which kfake only stores: it puts
// the time of arrival into the header of every batch for such a topic. ahead is the offset of
// the brokers' clock in milliseconds.
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

// stampsAppendTime reports whether a topic has message.timestamp.type=LogAppendTime.
func stampsAppendTime(info *kfake.TopicInfo) bool {
	if info == nil {
		return false
	}
	kind := info.Configs["message.timestamp.type"]
	return kind != nil && *kind == "LogAppendTime"
}

// restamp moves the times of the batches in records so that the last record of each is at now. The
// distances within a batch stay, because its records may be compressed. So the first records of a
// batch may be earlier than now, which log time as a running maximum tolerates, but none is later.
// The broker refuses an incomplete batch.
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
