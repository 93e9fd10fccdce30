package backtest

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/tick"
	"github.com/stillhere/stillhere/schemas"
)

// header is the first line of a recording.
type header struct {
	Version    int    `json:"stillhere_recording"`
	Topic      string `json:"topic"`
	Partitions int32  `json:"partitions"`
	recorded
}

// maxRecord bounds a record of a recording; Kafka's own bound is 1 MB by default.
const maxRecord = 64 << 20

// Recorder writes a recording. One goroutine may use it.
type Recorder struct {
	zstd    *zstd.Encoder
	out     *bufio.Writer
	scratch []byte
}

// NewRecorder begins a recording on w.
func NewRecorder(w io.Writer, topic string, partitions int32, in InForce) (*Recorder, error) {
	encoder, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, fmt.Errorf("beginning a recording: %w", err)
	}
	r := &Recorder{zstd: encoder, out: bufio.NewWriterSize(encoder, 1<<20)}
	if err := json.NewEncoder(r.out).Encode(header{1, topic, partitions, in.recorded()}); err != nil {
		return nil, fmt.Errorf("beginning a recording: %w", err)
	}
	return r, nil
}

// Write takes the next record of its partition.
func (r *Recorder) Write(record *schemas.Record) error {
	b := r.scratch[:0]
	for _, n := range []uint64{uint64(record.Partition), uint64(record.Offset), uint64(record.Time), uint64(len(record.Value))} {
		b = binary.AppendUvarint(b, n)
	}
	r.scratch = append(b, record.Value...)
	_, err := r.out.Write(r.scratch)
	return err
}

// Close completes the recording; it does not close what it is written to.
func (r *Recorder) Close() error { return errors.Join(r.out.Flush(), r.zstd.Close()) }

// Source gives recorded heartbeats.
type Source interface {
	// Partitions is how many the topic has.
	Partitions() int32
	// InForce is what was in force before the first record.
	InForce() InForce
	// Each calls each for the records, those of a partition in order. The record is
	// valid until each returns. It may be called again.
	Each(ctx context.Context, each func(*schemas.Record) error) error
}

// recording is a Source.
type recording struct {
	header
	from    io.ReadSeeker
	keys    *signing.Keys
	inForce InForce
}

// open returns a reader behind the head, and that of the stream, which must be closed.
func (s *recording) open() (*bufio.Reader, *zstd.Decoder, []byte, error) {
	if _, err := s.from.Seek(0, io.SeekStart); err != nil {
		return nil, nil, nil, fmt.Errorf("opening a recording: %w", err)
	}
	decoder, err := zstd.NewReader(s.from, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("opening a recording: %w", err)
	}
	in := bufio.NewReaderSize(decoder, 1<<20)
	line, err := in.ReadBytes('\n')
	if err != nil {
		decoder.Close()
	}
	return in, decoder, line, err
}

// OpenRecording reads the head of a recording. The caller closes r. With keys only those records count that
// detectors with these keys take.
func OpenRecording(r io.ReadSeeker, keys *signing.Keys) (Source, error) {
	s := &recording{from: r, keys: keys}
	_, decoder, line, err := s.open()
	if err == nil {
		decoder.Close()
	}
	if err != nil || json.Unmarshal(line, &s.header) != nil || s.Version == 0 {
		return nil, errors.New("this is no recording of heartbeats: stillhere record makes them")
	}
	if s.Version != 1 || s.header.Partitions < 1 {
		return nil, fmt.Errorf("a recording of version %d: this program reads version 1", s.Version)
	}
	s.inForce, err = s.recorded.inForce()
	return s, err
}

func (s *recording) Partitions() int32 { return s.header.Partitions }
func (s *recording) InForce() InForce  { return s.inForce }

func (s *recording) Each(ctx context.Context, each func(*schemas.Record) error) error {
	in, decoder, _, err := s.open()
	if err != nil {
		return err
	}
	defer decoder.Close()
	each = counting(s.keys, s.Topic, s.header.Partitions, each)
	var r schemas.Record
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := in.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		var numbers [4]uint64
		for i := range numbers {
			var err error
			if numbers[i], err = binary.ReadUvarint(in); err != nil {
				return broken(n, err)
			}
		}
		if numbers[3] > maxRecord || numbers[0] >= uint64(s.header.Partitions) {
			return broken(n, errors.New("its numbers are out of range"))
		}
		r.Partition, r.Offset, r.Time = int32(numbers[0]), int64(numbers[1]), schemas.Millis(numbers[2])
		if cap(r.Value) < int(numbers[3]) {
			r.Value = make([]byte, numbers[3])
		}
		r.Value = r.Value[:numbers[3]]
		if _, err := io.ReadFull(in, r.Value); err != nil {
			return broken(n, err)
		}
		if err := each(&r); err != nil {
			return err
		}
	}
}

func broken(record int, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("record %d of the recording: %w", record+1, err)
}

// Live is a Source of what the topic keeps now. Where the cluster has keys, only those records count that detectors
// with these keys take.
type Live struct {
	Reader *kafka.Reader
	Since  schemas.Millis // 0: all there is
	keys   *signing.Keys
	topic  string
	count  int32
	in     InForce
	// checkpoints of the detector, by partition
	checkpoints map[int32]*schemas.Checkpoint
}

// OpenLive looks at the topic of a pipeline.
func OpenLive(ctx context.Context, cluster kafka.Config, reader *kafka.Reader, since schemas.Millis) (*Live, error) {
	count, err := reader.Partitions(ctx, schemas.Heartbeats)
	if err != nil {
		return nil, err
	}
	checkpoints, err := policy.Checkpoints(ctx, cluster)
	if err != nil && !kafka.IsUnauthorized(err) {
		return nil, fmt.Errorf("looking which policy was in force: %w", err)
	}
	in, err := inForce(ctx, cluster, reader, count, since, checkpoints)
	return &Live{Reader: reader, Since: since, keys: cluster.Keys, topic: schemas.Heartbeats.Name(cluster.WithDefaults().Prefix), count: count, in: in, checkpoints: checkpoints}, err
}

// InForce is what was in force before the first record.
func (l *Live) InForce() InForce { return l.in }

// Partitions is how many the topic has.
func (l *Live) Partitions() int32 { return l.count }

// Each reads one partition after the other, up to its end as it is then.
func (l *Live) Each(ctx context.Context, each func(*schemas.Record) error) error {
	each = counting(l.keys, l.topic, l.count, each)
	for p := range l.count {
		from, err := l.start(ctx, p)
		if err != nil {
			return err
		}
		if err := l.Reader.Read(ctx, schemas.Heartbeats, p, from, -1, false, each); err != nil {
			return err
		}
	}
	return nil
}

func (l *Live) start(ctx context.Context, p int32) (int64, error) {
	if l.Since == 0 {
		return -1, nil
	}
	return l.Reader.OffsetSince(ctx, schemas.Heartbeats, p, l.Since)
}

// lookEvery is how often the topic is looked at for more.
const lookEvery = 200 * time.Millisecond

// Follow calls each for what there is and for what comes, until ctx ends; each
// record once, those of a partition in order. It returns nil when ctx has ended.
func (l *Live) Follow(ctx context.Context, each func(*schemas.Record) error) error {
	each = counting(l.keys, l.topic, l.count, each)
	next := make([]int64, l.count)
	for p := range next {
		from, err := l.start(ctx, int32(p))
		if err != nil {
			return err
		}
		next[p] = max(from, 0)
	}
	for range tick.Now(ctx, lookEvery) {
		for p := range next {
			_, end, err := l.Reader.Bounds(ctx, schemas.Heartbeats, int32(p))
			if err == nil && end > next[p] {
				err = l.Reader.Read(ctx, schemas.Heartbeats, int32(p), next[p], end, false, each)
			}
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			next[p] = max(next[p], end)
		}
	}
	return nil
}
