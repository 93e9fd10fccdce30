package redisview

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	_ "embed"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/schemas"
)

// Progress is how far Redis is for one partition. The projector moves it after every write, so a
// Redis that has lost writes has less progress than the projector remembers.
type Progress struct {
	// Epoch is when the partition was last rebuilt, Unix milliseconds of the projector's clock. It
	// only grows.
	Epoch int64
	// Watermark: everything up to this log time is in Redis; 0 = not known.
	Watermark schemas.Millis
	// Next is the next offset of the transitions to apply; -1 = not known.
	Next int64
	// Latest is the latest time of a transition before Next, LogEpoch the greatest log epoch of a version there;
	// 0 = not known. Another field has them, which programs older than it leave behind.
	Latest   schemas.Millis
	LogEpoch int64
	// Rebuilding: the rebuild of this epoch has not ended; absent keys mean nothing. Replacing: it also replaces
	// entries that are newer than the statuses, because they are of the lost part of a restored log.
	Rebuilding, Replacing bool
}

// ProgressMap is the progress by partition. A partition that is not in it must be rebuilt.
type ProgressMap map[int32]Progress

// progressLifetime is how long reads may use the progress of an earlier read. It adds to the age
// that stale_since is measured against, and is small beside it. epochs.go says what absence means.
const progressLifetime = 250 * time.Millisecond

// progressSnapshot is the progress and when it was read. It is never changed.
type progressSnapshot struct {
	progress ProgressMap
	at       time.Time
	connects int64  // how many connections had been made then
	tag      string // of the rebuilds, read no later than the progress; "" = not known
}

//go:embed move.lua
var moveLua string

var moveScript = redis.NewScript(moveLua)

const rebuilding, replacing = "rebuilding", "replacing"

// text is the stored form; empty for no progress.
func (m Progress) text() string {
	switch {
	case m == Progress{}:
		return ""
	case m.Replacing:
		return fmt.Sprintf("%d %s", m.Epoch, replacing)
	case m.Rebuilding:
		return fmt.Sprintf("%d %s", m.Epoch, rebuilding)
	default:
		return fmt.Sprintf("%d %d %d", m.Epoch, m.Watermark, m.Next)
	}
}

// parseProgress reads the stored form. Anything else counts as no progress, so that the partition
// is rebuilt.
func parseProgress(text string) Progress {
	words := strings.Split(text, " ")
	numbers := make([]int64, 0, 3)
	for _, word := range words {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			numbers = append(numbers, n)
		}
	}
	switch {
	case len(words) == 2 && len(numbers) == 1 && (words[1] == rebuilding || words[1] == replacing):
		return Progress{Epoch: numbers[0], Rebuilding: true, Replacing: words[1] == replacing}
	case len(words) == 3 && len(numbers) == 3:
		return Progress{Epoch: numbers[0], Watermark: schemas.Millis(numbers[1]), Next: numbers[2]}
	}
	return Progress{}
}

// Progress returns the partition's progress; the zero Progress when there is none.
func (v *View) Progress(ctx context.Context, partition int32) (Progress, error) {
	progress, _, err := v.ProgressAndTopic(ctx, partition)
	return progress, err
}

// ProgressAndTopic returns the partition's progress and the topic last given to MoveWithTopic.
func (v *View) ProgressAndTopic(ctx context.Context, partition int32) (Progress, schemas.TopicID, error) {
	values, err := v.client.HMGet(ctx, v.progressKey(), field(partition), field(partition)+topicField, field(partition)+logField).Result()
	if err != nil {
		return Progress{}, schemas.TopicID{}, fmt.Errorf("reading the progress of partition %d: %w", partition, err)
	}
	text, _ := values[0].(string)
	named, _ := values[1].(string)
	topic, err := schemas.ParseTopicID(named)
	if err != nil {
		topic = schemas.TopicID{} // it is not there, or not known what it is
	}
	progress := parseProgress(text)
	var next, latest, epoch int64
	log, _ := values[2].(string)
	if n, _ := fmt.Sscan(log, &next, &latest, &epoch); n == 3 && next == progress.Next && progress != (Progress{}) {
		progress.Latest, progress.LogEpoch = schemas.Millis(latest), epoch
	}
	return progress, topic, nil
}

// Move changes the partition's progress to to if it is from; the zero Progress stands for none. It
// returns the progress that is there now: to if this call or an earlier attempt has changed it.
func (v *View) Move(ctx context.Context, partition int32, from, to Progress) (Progress, error) {
	return v.move(ctx, partition, from, to, "")
}

// MoveWithTopic is Move by the new owner of a partition. It also stores the topic that Next is an
// offset of. Programs older than this field leave it as it is.
func (v *View) MoveWithTopic(ctx context.Context, partition int32, from, to Progress, topic schemas.TopicID) (Progress, error) {
	return v.move(ctx, partition, from, to, topic.String())
}

func (v *View) move(ctx context.Context, partition int32, from, to Progress, topic string) (Progress, error) {
	keys := []string{v.progressKey()}
	if !v.cluster {
		keys = append(keys, v.tagKey())
	}
	log := fmt.Sprintf("%d %d %d", to.Next, to.Latest, to.LogEpoch)
	text, err := moveScript.Run(ctx, v.client, keys, field(partition), from.text(), to.text(), topic, log).Text()
	if err != nil {
		return Progress{}, fmt.Errorf("moving the progress of partition %d: %w", partition, err)
	}
	if text == to.text() {
		return to, nil
	}
	return parseProgress(text), nil
}

func (v *View) progressKey() string { return v.prefix + "marks" }

// tagKey is the key of the rebuild tag (move.lua). The command that reads users reads it too, so
// that both are of the same instant.
func (v *View) tagKey() string { return v.prefix + "rebuilds" }

// topicField ends the name of the field with the topic. Readers of the progress skip it, because
// it is no number.
const topicField = ".topic"

// logField ends the name of the field with Next, Latest and LogEpoch.
const logField = ".log"

func field(partition int32) string { return strconv.Itoa(int(partition)) }

// recentProgress is the progress read a moment ago, or nil.
func (v *View) recentProgress() *progressSnapshot {
	if read := v.progress.Load(); read != nil && time.Since(read.at) < v.lifetime {
		return read
	}
	return nil
}

// progressRequest is a read of the progress in a pipeline.
type progressRequest struct {
	tag    *redis.SliceCmd // nil in a cluster
	fields *redis.MapStringStringCmd
	read   *progressSnapshot
}

func (v *View) requestProgress(ctx context.Context, p redis.Pipeliner) progressRequest {
	asked := progressRequest{read: &progressSnapshot{at: time.Now(), connects: v.connects.Load()}}
	if !v.cluster {
		asked.tag = p.MGet(ctx, v.tagKey())
	}
	asked.fields = p.HGetAll(ctx, v.progressKey())
	return asked
}

// keepProgress takes the result of a pipeline without errors and keeps it for the next reads.
func (v *View) keepProgress(asked progressRequest) *progressSnapshot {
	read, fields := asked.read, asked.fields.Val()
	if asked.tag != nil {
		read.tag, _ = asked.tag.Val()[0].(string)
	}
	read.progress = make(ProgressMap, len(fields))
	for name, text := range fields {
		partition, err := strconv.ParseInt(name, 10, 32)
		if progress := parseProgress(text); err == nil && progress != (Progress{}) {
			read.progress[int32(partition)] = progress
		}
	}
	v.progress.Store(read)
	return read
}
