package graph

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
)

// loader is the part of a Store that Load needs.
type loader interface {
	Loaded(ctx context.Context, file string) (int64, error)
	Load(ctx context.Context, file string, from, to int64, edges []Edge, names Names) (int64, error)
	Optimize(ctx context.Context) error
}

// LoadOptions say how to load a file.
type LoadOptions struct {
	// Name of the file, under which its position is stored, together with a hash of its beginning.
	Name string
	// Size of the file in bytes.
	Size int64
	// FromStart ignores the stored position.
	FromStart bool
	// Users is how the file names users, Tenant whose they are if they have names.
	Users  identity.Users
	Tenant string
	// Chunk is how many edges one transaction has [200,000].
	Chunk int
	// Bad is called for every line that is skipped, counted from 1.
	Bad func(line int64, err error)
	// Progress is called after every chunk.
	Progress func(LoadReport)
}

// LoadReport is what was loaded.
type LoadReport struct {
	Resumed  int64 // the byte at which the load resumed; 0: the start
	Position int64 // the byte up to which everything is loaded
	Lines    int64 // lines that this call read
	Edges    int64 // of those lines
	Added    int64 // edges that were new
	Bad      int64 // lines skipped
}

const (
	maxLine  = 4096
	hashSpan = 64 << 10
)

// Load reads lines "user,follower" from file into the store. A tab may stand for the comma; it must if
// names have commas. A first line without a digit is a heading; if users have names, a first line
// "user_id,follower_id" is one. A file whose load was interrupted resumes at the stored
// position. Edges that the store already has are counted and otherwise ignored.
func Load(ctx context.Context, store loader, file io.ReadSeeker, o LoadOptions) (r LoadReport, err error) {
	if o.Chunk == 0 {
		o.Chunk = 200_000
	}
	l := &load{store: store, o: o, edges: make([]Edge, 0, o.Chunk), names: Names{}}
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
	line   int64 // number of the last line read
	read   int64 // bytes read
	edges  []Edge
	names  Names // of edges
	report LoadReport
}

// begin finds the position to resume at and counts the lines before it.
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
		l.report.Position = 0 // the file was truncated, so it is another file
	}
	l.report.Resumed, l.read = l.report.Position, l.report.Position
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading %s: %w", l.o.Name, err)
	}
	// The lines before the position are counted, so that Bad names lines of the whole file.
	var lines lineCounter
	if _, err := io.CopyN(&lines, file, l.report.Position); err != nil {
		return fmt.Errorf("reading %s: %w", l.o.Name, err)
	}
	l.line = int64(lines)
	l.in = bufio.NewReaderSize(file, 1<<20)
	return nil
}

// lineCounter counts the ends of lines that are written to it.
type lineCounter int64

func (c *lineCounter) Write(part []byte) (int, error) {
	*c += lineCounter(bytes.Count(part, []byte{'\n'}))
	return len(part), nil
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

// next returns the next line without its end, or the beginning of a line that is too long.
func (l *load) next() ([]byte, error) {
	text, err := l.in.ReadSlice('\n')
	begin, long := text, false
	for errors.Is(err, bufio.ErrBufferFull) {
		l.read += int64(len(text))
		begin, long = bytes.Clone(begin[:maxLine]), true
		text, err = l.in.ReadSlice('\n')
	}
	l.read += int64(len(text))
	if err != nil && (!errors.Is(err, io.EOF) || len(text) == 0) {
		return nil, err
	}
	l.line++
	if long {
		return begin, nil
	}
	return bytes.TrimRight(text, "\r\n"), nil
}

func (l *load) take(text []byte) {
	l.report.Lines++
	if len(bytes.TrimSpace(text)) == 0 || l.line == 1 && l.heading(text) {
		return
	}
	edge, names, err := ParseEdge(l.o.Users, l.o.Tenant, text)
	if err == nil && names[0].Text != "" {
		err = errors.Join(l.names.Add(edge.User, names[0]), l.names.Add(edge.Follower, names[1]))
	}
	if err != nil {
		l.report.Bad++
		if l.o.Bad != nil {
			l.o.Bad(l.line, err)
		}
		return
	}
	l.edges = append(l.edges, edge)
}

func (l *load) heading(text []byte) bool {
	if l.o.Users.Text() {
		return string(bytes.ReplaceAll(text, []byte{'\t'}, []byte{','})) == "user_id,follower_id"
	}
	return !bytes.ContainsAny(text, "0123456789")
}

func (l *load) flush(ctx context.Context) error {
	if l.read == l.report.Position {
		return nil
	}
	added, err := l.store.Load(ctx, l.name, l.report.Position, l.read, l.edges, l.names)
	if err != nil {
		return err
	}
	l.report.Added += added
	l.report.Edges += int64(len(l.edges))
	l.report.Position = l.read
	l.edges = l.edges[:0]
	clear(l.names)
	if l.o.Progress != nil {
		l.o.Progress(l.report)
	}
	return nil
}

// ParseEdge reads "user,follower". Of a line with a tab, the tab separates both. names are those of
// both users if users have names; beside a comma they may be in quotes as RFC 4180 has them.
func ParseEdge(users identity.Users, tenant string, text []byte) (e Edge, names [2]schemas.Name, err error) {
	if len(text) > maxLine-1 {
		return Edge{}, names, errors.New("the line is too long")
	}
	if !users.Text() {
		text = bytes.ReplaceAll(text, []byte(", "), []byte{','})
	}
	user, follower, ok := bytes.Cut(text, []byte{'\t'})
	if !ok {
		if user, follower, err = cutNames(text); err != nil {
			return Edge{}, names, err
		}
	}
	if e.User, names[0], err = users.User("user", tenant, string(user)); err == nil {
		e.Follower, names[1], err = users.User("follower", tenant, string(follower))
	}
	switch {
	case err != nil:
		return Edge{}, names, err
	case e.User == e.Follower:
		return Edge{}, names, fmt.Errorf("user %s cannot follow itself", user)
	}
	return e, names, nil
}

// cutNames cuts a line without a tab. A name has commas and quotes only in quotes, because else the line
// could be of other users.
func cutNames(text []byte) (user, follower []byte, err error) {
	if bytes.IndexByte(text, '"') < 0 && bytes.Count(text, []byte{','}) == 1 {
		user, follower, _ = bytes.Cut(text, []byte{','})
		if len(bytes.TrimSpace(user)) < len(user) || len(bytes.TrimSpace(follower)) < len(follower) {
			return nil, nil, fmt.Errorf("%q has spaces around a name: remove them, or put a name that has them in quotes", text)
		}
		return user, follower, nil
	}
	columns, err := csv.NewReader(bytes.NewReader(text)).Read()
	if err != nil || len(columns) != 2 {
		return nil, nil, fmt.Errorf("%q is not user,follower; put names with commas or quotes in quotes, or a tab between both", text)
	}
	return []byte(columns[0]), []byte(columns[1]), nil
}
