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

// Mark tells how far Redis is for one partition. The projector moves it after
// every write, so that a Redis that has lost writes has an older mark than the
// projector remembers.
type Mark struct {
	// Epoch is when the partition was last rebuilt, Unix milliseconds of the
	// projector's clock; it only grows.
	Epoch int64
	// Watermark: everything up to this log time is in Redis; 0 = not known.
	Watermark schemas.Millis
	// Next is the next offset of the transitions to be applied; -1 = not known.
	Next int64
	// Rebuilding: the rebuild of this epoch has not ended; absent keys say nothing.
	Rebuilding bool
}

// Marks are the marks by partition. A partition without one is to be rebuilt.
type Marks map[int32]Mark

// marksLifetime is how long a read may use the marks of an earlier one. It adds
// to what stale_since is measured against, and is small beside it. What absence tells
// is another matter (standing.go).
const marksLifetime = 250 * time.Millisecond

// marksRead are marks and when they were read. Nobody changes them.
type marksRead struct {
	marks    Marks
	at       time.Time
	connects int64  // how many connections had been made then
	tag      string // of the rebuilds, read no later than the marks; "" = not known
}

//go:embed move.lua
var moveLua string

var moveScript = redis.NewScript(moveLua)

const rebuilding = "rebuilding"

// text is the stored form: the empty one for no mark.
func (m Mark) text() string {
	switch {
	case m == Mark{}:
		return ""
	case m.Rebuilding:
		return fmt.Sprintf("%d %s", m.Epoch, rebuilding)
	default:
		return fmt.Sprintf("%d %d %d", m.Epoch, m.Watermark, m.Next)
	}
}

// parseMark reads the stored form; what it does not understand counts as none,
// so that the partition is rebuilt.
func parseMark(text string) Mark {
	words := strings.Split(text, " ")
	numbers := make([]int64, 0, 3)
	for _, word := range words {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			numbers = append(numbers, n)
		}
	}
	switch {
	case len(words) == 2 && len(numbers) == 1 && words[1] == rebuilding:
		return Mark{Epoch: numbers[0], Rebuilding: true}
	case len(words) == 3 && len(numbers) == 3:
		return Mark{Epoch: numbers[0], Watermark: schemas.Millis(numbers[1]), Next: numbers[2]}
	}
	return Mark{}
}

// Mark is the partition's mark; the zero Mark when there is none.
func (v *View) Mark(ctx context.Context, partition int32) (Mark, error) {
	mark, _, err := v.Place(ctx, partition)
	return mark, err
}

// Place is the partition's mark and the topic that Begin was last told of.
func (v *View) Place(ctx context.Context, partition int32) (Mark, schemas.TopicID, error) {
	values, err := v.client.HMGet(ctx, v.marksKey(), field(partition), field(partition)+topicField).Result()
	if err != nil {
		return Mark{}, schemas.TopicID{}, fmt.Errorf("reading the mark of partition %d: %w", partition, err)
	}
	text, _ := values[0].(string)
	named, _ := values[1].(string)
	topic, err := schemas.ParseTopicID(named)
	if err != nil {
		topic = schemas.TopicID{} // it is not there, or not known what it is
	}
	return parseMark(text), topic, nil
}

// Move moves the partition's mark from one to the other, if it is the one; the
// zero Mark stands for none. It returns the mark that is there now: to when it
// was moved, now or by an earlier attempt.
func (v *View) Move(ctx context.Context, partition int32, from, to Mark) (Mark, error) {
	return v.move(ctx, partition, from, to, "")
}

// Begin is Move by whoever takes up the partition, and keeps the topic whose offset
// the mark's is from now on. Programs of a version that kept no topics leave it.
func (v *View) Begin(ctx context.Context, partition int32, from, to Mark, topic schemas.TopicID) (Mark, error) {
	return v.move(ctx, partition, from, to, topic.String())
}

func (v *View) move(ctx context.Context, partition int32, from, to Mark, topic string) (Mark, error) {
	keys := []string{v.marksKey()}
	if !v.cluster {
		keys = append(keys, v.tagKey())
	}
	text, err := moveScript.Run(ctx, v.client, keys, field(partition), from.text(), to.text(), topic).Text()
	if err != nil {
		return Mark{}, fmt.Errorf("moving the mark of partition %d: %w", partition, err)
	}
	return parseMark(text), nil
}

func (v *View) marksKey() string { return v.prefix + "marks" }

// tagKey is the key of the tag of the rebuilds (move.lua). It is read by the command
// that reads users, so that it tells of the same instant.
func (v *View) tagKey() string { return v.prefix + "rebuilds" }

// topicField ends the name of the field that has the topic. Who looks for marks
// passes over it, for it is no number.
const topicField = ".topic"

func field(partition int32) string { return strconv.Itoa(int(partition)) }

// knownMarks are the marks read a moment ago, or nil.
func (v *View) knownMarks() *marksRead {
	if read := v.marks.Load(); read != nil && time.Since(read.at) < v.lifetime {
		return read
	}
	return nil
}

// marksAsked are marks that are being read in a pipeline.
type marksAsked struct {
	tag    *redis.SliceCmd // nil in a cluster
	fields *redis.MapStringStringCmd
	read   *marksRead
}

// askMarks puts the reading of the marks into a pipeline.
func (v *View) askMarks(ctx context.Context, p redis.Pipeliner) marksAsked {
	asked := marksAsked{read: &marksRead{at: time.Now(), connects: v.connects.Load()}}
	if !v.cluster {
		asked.tag = p.MGet(ctx, v.tagKey())
	}
	asked.fields = p.HGetAll(ctx, v.marksKey())
	return asked
}

// keepMarks takes what a pipeline without errors has read, and keeps it for the reads
// of the next moment.
func (v *View) keepMarks(asked marksAsked) *marksRead {
	read, fields := asked.read, asked.fields.Val()
	if asked.tag != nil {
		read.tag, _ = asked.tag.Val()[0].(string)
	}
	read.marks = make(Marks, len(fields))
	for name, text := range fields {
		partition, err := strconv.ParseInt(name, 10, 32)
		if mark := parseMark(text); err == nil && mark != (Mark{}) {
			read.marks[int32(partition)] = mark
		}
	}
	v.marks.Store(read)
	return read
}
