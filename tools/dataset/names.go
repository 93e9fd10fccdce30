package dataset

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/lastseen/sink"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Names is what users are called, from presence.names and, where there is one, the durable store. Several
// goroutines may use it at the same time.
//
// With a store only users whom it does not know are looked up in the topic. The topic is read by
// partitions, when somebody asks for a user of one; a partition that was read stays in memory, with about
// 25 bytes and the name for each user.
type Names struct {
	store  StoredNames // nil: there is none
	read   func(ctx context.Context, partition int32, from, to int64, each func(*schemas.Record) error) error
	bounds func(ctx context.Context, partition int32) (start, end int64, err error)
	count  func(ctx context.Context) (int32, error)
	decode func(*schemas.Record) (schemas.UserName, error)

	// looking is held by whoever uses the fields below, also while it asks Kafka. It is not a mutex:
	// virtual time does not advance while a goroutine waits for a mutex.
	looking    chan struct{}
	partitions int32 // 0: not known yet
	tables     map[int32]*nameTable
}

var _ replay.Names = (*Names)(nil)

// StoredNames is the part of a store that Names needs.
type StoredNames interface {
	Names(ctx context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.UserName, error)
}

// NewNames reads the topic by reader, which it does not close. from may be nil. In int mode it returns nil.
func NewNames(cluster kafka.Config, reader *kafka.Reader, from StoredNames) *Names {
	if !cluster.Users.Text() {
		return nil
	}
	return &Names{
		store: from, decode: sink.DecodeName(cluster.Users), looking: make(chan struct{}, 1), tables: map[int32]*nameTable{},
		read: func(ctx context.Context, partition int32, from, to int64, each func(*schemas.Record) error) error {
			return reader.Read(ctx, schemas.Names, partition, from, to, true, each)
		},
		bounds: func(ctx context.Context, partition int32) (start, end int64, err error) {
			return reader.Bounds(ctx, schemas.Names, partition)
		},
		count: func(ctx context.Context) (int32, error) { return reader.Partitions(ctx, schemas.Names) },
	}
}

// lock takes the fields that several goroutines use.
func (n *Names) lock(ctx context.Context) error {
	select {
	case n.looking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if n.partitions == 0 {
		var err error
		if n.partitions, err = n.count(ctx); err != nil {
			n.unlock()
			return fmt.Errorf("looking for the topic of the names: %w", err)
		}
	}
	return nil
}

func (n *Names) unlock() { <-n.looking }

// Names returns what is known of the names of ids. What was read of the topic goes before the store, which
// may be behind it.
func (n *Names) Names(ctx context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.UserName, error) {
	if err := n.lock(ctx); err != nil {
		return nil, err
	}
	defer n.unlock()
	found := make(map[schemas.UserID]schemas.UserName, len(ids))
	rest := n.inTables(ids, found)
	if n.store != nil && len(rest) > 0 {
		stored, err := n.store.Names(ctx, rest)
		if err != nil {
			return nil, err
		}
		missing := rest[:0]
		for _, id := range rest {
			if name, known := stored[id]; known {
				found[id] = name
			} else {
				missing = append(missing, id)
			}
		}
		rest = missing
	}
	for _, id := range rest {
		if p := schemas.PartitionOf(id, n.partitions); n.tables[p] == nil {
			if err := n.refresh(ctx, p); err != nil {
				return nil, err
			}
		}
	}
	n.inTables(rest, found)
	return found, nil
}

// inTables puts those whom the tables know into found, and returns the others.
func (n *Names) inTables(ids []schemas.UserID, found map[schemas.UserID]schemas.UserName) (rest []schemas.UserID) {
	for _, id := range ids {
		if t := n.tables[schemas.PartitionOf(id, n.partitions)]; t != nil {
			if name, known := t.find(id); known {
				found[id] = name
				continue
			}
		}
		rest = append(rest, id)
	}
	return rest
}

// Refresh reads what was written to a partition of the topic.
func (n *Names) Refresh(ctx context.Context, partition int32) error {
	if err := n.lock(ctx); err != nil {
		return err
	}
	defer n.unlock()
	return n.refresh(ctx, partition)
}

func (n *Names) refresh(ctx context.Context, partition int32) error {
	_, end, err := n.bounds(ctx, partition)
	if err != nil {
		return err
	}
	t := n.tables[partition]
	if t == nil || end < t.next { // of a topic that was recreated
		t = newNameTable()
	}
	if t.next < end {
		err = n.read(ctx, partition, t.next, end, func(r *schemas.Record) error {
			if name, err := n.decode(r); err == nil { // others are not of the detector
				t.put(name)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("reading the names of partition %d: %w", partition, err)
		}
	}
	t.next = end
	n.tables[partition] = t
	return nil
}

// copied is how many names Copy writes at a time.
const copied = 10_000

// Copy writes the records of the topic to a store, those of a partition in order, and returns how many. It
// ends where the topic ends then. So the pipeline may run beside it: a tombstone that the store got before
// an older name is written again.
func (n *Names) Copy(ctx context.Context, to store.Namer) (records int64, err error) {
	if err := n.lock(ctx); err != nil {
		return 0, err
	}
	defer n.unlock()
	batch := make([]schemas.UserName, 0, copied)
	flush := func() error {
		err := to.WriteNames(ctx, batch)
		records, batch = records+int64(len(batch)), batch[:0]
		return err
	}
	for p := range n.partitions {
		for next := int64(0); ; {
			_, end, err := n.bounds(ctx, p)
			if err == nil && next < end {
				err = n.read(ctx, p, next, end, func(r *schemas.Record) error {
					name, err := n.decode(r)
					if err != nil {
						return nil // it is not of the detector
					}
					if batch = append(batch, name); len(batch) < copied {
						return nil
					}
					return flush()
				})
			}
			if err == nil && len(batch) > 0 {
				err = flush()
			}
			if err != nil {
				return records, fmt.Errorf("copying the names of partition %d: %w", p, err)
			}
			if next == end {
				break
			}
			next = end
		}
	}
	return records, nil
}

// nameTable is the names of a partition's users: a map into an array of bytes, because a map of strings
// would take three times the memory.
type nameTable struct {
	next    int64 // offset of the topic
	at      map[schemas.UserID]uint32
	entries []byte // tenant's index (4 bytes), length of the name less 1, the name
	tenants []string
	index   map[string]uint32
}

// entriesEnd bounds the entries, which have offsets of 32 bits. Beyond that names are not known, as if they
// had not come.
const entriesEnd = 1<<32 - 4096

func newNameTable() *nameTable {
	return &nameTable{at: map[schemas.UserID]uint32{}, index: map[string]uint32{}}
}

// put takes the next record of the topic.
func (t *nameTable) put(n schemas.UserName) {
	if n.Name.Text == "" {
		delete(t.at, n.User)
		return
	}
	if _, met := t.at[n.User]; met || len(t.entries) > entriesEnd {
		return
	}
	tenant, met := t.index[n.Name.Tenant]
	if !met {
		tenant = uint32(len(t.tenants))
		t.tenants, t.index[n.Name.Tenant] = append(t.tenants, n.Name.Tenant), tenant
	}
	t.at[n.User] = uint32(len(t.entries))
	length := byte(len(n.Name.Text) - 1)
	t.entries = append(append(binary.BigEndian.AppendUint32(t.entries, tenant), length), n.Name.Text...)
}

// find is what is known of a user.
func (t *nameTable) find(id schemas.UserID) (schemas.UserName, bool) {
	at, known := t.at[id]
	if !known {
		return schemas.UserName{}, false
	}
	e := t.entries[at:]
	length := int(e[4]) + 1
	return schemas.UserName{User: id,
		Name: schemas.Name{Tenant: t.tenants[binary.BigEndian.Uint32(e)], Text: string(e[5 : 5+length])}}, true
}
