package redisview

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	_ "embed"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/schemas"
)

// PartitionCounts is how many users of a partition are present, and at which log time.
type PartitionCounts struct {
	schemas.Counts
	At schemas.Millis
}

// SumCounts adds up the counts of all partitions; At is the oldest instant of them, 0 if none is known.
// missing are the partitions of which no count is known, never nil.
func SumCounts(byPartition map[int32]PartitionCounts, partitions int32) (sum PartitionCounts, missing []int32) {
	missing = []int32{}
	for p := range partitions {
		c, known := byPartition[p]
		if !known {
			missing = append(missing, p)
			continue
		}
		sum.Add(&c.Counts)
		if sum.At == 0 || c.At < sum.At {
			sum.At = c.At
		}
	}
	return sum, missing
}

//go:embed counts.lua
var countsLua string

var countsScript = redis.NewScript(countsLua)

func (v *View) countsKey() string { return v.prefix + "counts" }

// WriteCounts writes the counts of a partition, unless Redis has newer ones.
func (v *View) WriteCounts(ctx context.Context, partition int32, c PartitionCounts) error {
	err := countsScript.Run(ctx, v.client, []string{v.countsKey()}, field(partition),
		appendHex(nil, int64(c.At), 12), countsText(&c.Counts)).Err()
	if err != nil {
		return fmt.Errorf("writing the counts of partition %d to Redis: %w", partition, err)
	}
	return nil
}

// countsText is the stored form behind the log time.
func countsText(c *schemas.Counts) string {
	text := fmt.Sprintf(" %d %d", c.Online, c.Away)
	for _, n := range c.ByKind {
		text += " " + strconv.FormatInt(n, 10)
	}
	return text
}

// Counts returns the newest counts, by partition.
func (v *View) Counts(ctx context.Context) (map[int32]PartitionCounts, error) {
	fields, err := v.client.HGetAll(ctx, v.countsKey()).Result()
	if err != nil {
		return nil, fmt.Errorf("reading the counts from Redis: %w", err)
	}
	counts := make(map[int32]PartitionCounts, len(fields))
	for name, text := range fields {
		partition, err := strconv.ParseInt(name, 10, 32)
		if c, ok := parseCounts(text); err == nil && ok {
			counts[int32(partition)] = c
		}
	}
	return counts, nil
}

// parseCounts reads the stored form. It ignores kinds that this program does not know.
func parseCounts(text string) (c PartitionCounts, ok bool) {
	words := strings.Fields(text)
	if len(words) < 3 || len(words[0]) != 12 {
		return c, false
	}
	var bad uint64
	at := hex12([]byte(words[0]), &bad)
	ok = bad == 0
	numbers := make([]int64, len(words)-1)
	for i, word := range words[1:] {
		n, err := strconv.ParseInt(word, 10, 64)
		ok = ok && err == nil && n >= 0
		numbers[i] = n
	}
	c.At, c.Online, c.Away = schemas.Millis(at), numbers[0], numbers[1]
	copy(c.ByKind[:], numbers[2:])
	return c, ok
}
