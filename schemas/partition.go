package schemas

import "encoding/binary"

// PartitionOf is the partition of a user in the heartbeats, transitions and
// status topics: what Kafka's Java client and franz-go choose for the key by
// default (murmur2, sign bit dropped, modulo the number of partitions).
// librdkafka does so only with partitioner=murmur2_random.
func PartitionOf(id UserID, partitions int32) int32 {
	return int32(murmur2(uint64(id)) & 0x7fffffff % uint32(partitions))
}

// murmur2 is Kafka's variant of MurmurHash2 (org.apache.kafka.common.utils.
// Utils.murmur2), unrolled for a key of 8 bytes: the big-endian bytes of key,
// read as two little-endian words.
func murmur2(key uint64) uint32 {
	const (
		seed   = 0x9747b28c
		m      = 0x5bd1e995
		length = 8
	)
	var bytes [length]byte
	binary.BigEndian.PutUint64(bytes[:], key)
	h := uint32(seed ^ length)
	for _, k := range [2]uint32{binary.LittleEndian.Uint32(bytes[:]), binary.LittleEndian.Uint32(bytes[4:])} {
		k *= m
		k ^= k >> 24
		k *= m
		h *= m
		h ^= k
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}
