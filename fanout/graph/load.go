package graph

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/stillhere/stillhere/schemas"
)

// loader is the part of a Store that Load needs.
type loader interface {
	Loaded(ctx context.Context, file string) (int64, error)
	Load(ctx context.Context, file string, from, to int64, edges []Edge) (int64, error)
	Optimize(ctx context.Context) error
}

// LoadOptions say how to load a file.
type LoadOptions struct {
	// Name stands for the file where its progress is kept, together with a hash of
	// its beginning.
	Name string
	// Size of the file in bytes.
	Size int64
	// FromStart begins at the start whatever was loaded before.
	FromStart bool
	// Chunk is how many edges are written at a time [200,000].
	Chunk int
	// Bad is told of every line that is left out, counted from 1.
	Bad func(line int64, err error)
	// Progress is told after every chunk.
	Progress func(LoadReport)
}

// LoadReport is what was loaded.
type LoadReport struct {
	Resumed  int64 // the byte at which it went on; 0: from the start
	Position int64 // the byte up to which everything is loaded
	Lines    int64 // read by this call
	Edges    int64 // of those lines
	Added    int64 // edges that were new
	Bad      int64 // lines left out
}

const (
	maxLine  = 4096
	hashSpan = 64 << 10
)

// Load reads lines "user,follower" (a tab does too; a first line that holds no
// digit is a heading) from file into the store, and goes on where the same file
// was left when loading it was cut short. Edges that are there already do no harm.
func Load(ctx context.Context, store loader, file io.ReadSeeker, o LoadOptions) (r LoadReport, err error) {
	if o.Chunk == 0 {
		o.Chunk = 200_000
	}
	l := &load{store: store, o: o, edges: make([]Edge, 0, o.Chunk)}
	if err := l.begin(ctx, file); err != nil {
		return l.report, err
	}
	if err := l.run(ctx); err != nil {
		return l.report, err
	}
	return l.report, store.Optimize(ctx)
}

type load struct {
	store  loader
	o      LoadOptions
	name   string
	in     *bufio.Reader
	line   int64 // of the file, the one read last
	read   int64 // bytes read
	edges  []Edge
	report LoadReport
}

// begin finds the place to go on from and counts the lines before it.
func (l *load) begin(ctx context.Context, file io.ReadSeeker) error {
	head, err := io.ReadAll(io.LimitReader(file, hashSpan))
	if err != nil {
		return fmt.Errorf("reading %s: %w", l.o.Name, err)
	}
	l.name = fmt.Sprintf("%s sha256:%x", l.o.Name, sha256.Sum256(head))
	if !l.o.FromStart {
		if l.report.Position, err = l.store.Loaded(ctx, l.name); err != nil {
			return err
		}
	}
	if l.report.Position > l.o.Size {
		l.report.Position = 0 // it was cut back, so it is another file
	}
	l.report.Resumed, l.read = l.report.Position, l.report.Position
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading %s: %w", l.o.Name, err)
	}
	l.in = bufio.NewReaderSize(file, 1<<20)
	for left := l.report.Position; left > 0; {
		part, err := l.in.Peek(int(min(left, 64<<10)))
		if err != nil {
			return fmt.Errorf("reading %s: %w", l.o.Name, err)
		}
		l.line += int64(bytes.Count(part, []byte{'\n'}))
		left -= int64(len(part))
		if _, err := l.in.Discard(len(part)); err != nil {
			return fmt.Errorf("reading %s: %w", l.o.Name, err)
		}
	}
	return nil
}

func (l *load) run(ctx context.Context) error {
	for {
		text, err := l.next()
		if errors.Is(err, io.EOF) {
			return l.flush(ctx)
		}
		if err != nil {
			return fmt.Errorf("reading %s line %d: %w", l.o.Name, l.line, err)
		}
		l.take(text)
		if len(l.edges) == l.o.Chunk {
			if err := l.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// next is the next line without its end; of one that is too long, the beginning.
func (l *load) next() ([]byte, error) {
	text, err := l.in.ReadSlice('\n')
	kept, long := text, false
	for errors.Is(err, bufio.ErrBufferFull) {
		l.read += int64(len(text))
		kept, long = bytes.Clone(kept[:maxLine]), true
		text, err = l.in.ReadSlice('\n')
	}
	l.read += int64(len(text))
	if err != nil && (!errors.Is(err, io.EOF) || len(text) == 0) {
		return nil, err
	}
	l.line++
	if long {
		return kept, nil
	}
	return bytes.TrimRight(text, "\r\n"), nil
}

func (l *load) take(text []byte) {
	l.report.Lines++
	if len(bytes.TrimSpace(text)) == 0 || l.line == 1 && !bytes.ContainsAny(text, "0123456789") {
		return
	}
	edge, err := ParseEdge(text)
	if err != nil {
		l.report.Bad++
		if l.o.Bad != nil {
			l.o.Bad(l.line, err)
		}
		return
	}
	l.edges = append(l.edges, edge)
}

func (l *load) flush(ctx context.Context) error {
	if l.read == l.report.Position {
		return nil
	}
	added, err := l.store.Load(ctx, l.name, l.report.Position, l.read, l.edges)
	if err != nil {
		return err
	}
	l.report.Added += added
	l.report.Edges += int64(len(l.edges))
	l.report.Position = l.read
	l.edges = l.edges[:0]
	if l.o.Progress != nil {
		l.o.Progress(l.report)
	}
	return nil
}

// ParseEdge reads "user,follower".
func ParseEdge(text []byte) (Edge, error) {
	if len(text) > maxLine-1 {
		return Edge{}, errors.New("the line is too long")
	}
	i := bytes.IndexAny(text, ",\t")
	if i < 0 {
		return Edge{}, fmt.Errorf("%q is not user,follower", text)
	}
	user, err := parseID("user", text[:i])
	if err != nil {
		return Edge{}, err
	}
	follower, err := parseID("follower", text[i+1:])
	if err != nil {
		return Edge{}, err
	}
	if user == follower {
		return Edge{}, fmt.Errorf("user %d cannot follow itself", user)
	}
	return Edge{user, follower}, nil
}

func parseID(field string, text []byte) (schemas.UserID, error) {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s: %q must be between 1 and 9223372036854775807", field, text)
	}
	return schemas.UserID(n), nil
}
