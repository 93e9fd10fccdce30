package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Two processes with one instance name fence each other again and again: each restart fences the
// other. So each member has a stamp in its group metadata, and the younger process ends. Fencing
// alone proves nothing: a process that was suspended is fenced too when it resumes.

// ProcessStamp distinguishes processes of one name.
type ProcessStamp struct {
	Started int64 // Unix milliseconds of the process's own clock; any order would do
	ID      uint64
	Version string // of the program, of 255 bytes at most
}

// process is the stamp of all loops of this process.
var process = ProcessStamp{Started: time.Now().UnixMilli(), ID: rand.Uint64()}

// stampHead marks a stamp at the end of a member's user data. Before it are the version and its length, a byte.
const stampHead = "stillher"

func (s ProcessStamp) append(to []byte) []byte {
	version := s.Version[:min(len(s.Version), math.MaxUint8)]
	to = append(append(to, version...), byte(len(version)))
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(append(to, stampHead...), uint64(s.Started)), s.ID)
}

// StampOf is the stamp of the process that has joined a group with this user data; zero, which is the oldest, if it has
// none.
func StampOf(data []byte) (s ProcessStamp) {
	const size = len(stampHead) + 16
	if len(data) < size {
		return s
	}
	before, data := data[:len(data)-size], data[len(data)-size:]
	if string(data[:len(stampHead)]) != stampHead {
		return s
	}
	data = data[len(stampHead):]
	s.Started, s.ID = int64(binary.BigEndian.Uint64(data)), binary.BigEndian.Uint64(data[8:])
	if last := len(before) - 1; last >= 0 && int(before[last]) <= last {
		s.Version = string(before[last-int(before[last]) : last])
	}
	return s
}

// InstanceOf is the instance name of the process that joined group, as Config.GroupName names it, under a
// group instance id.
func InstanceOf(group, id string) string { return strings.TrimPrefix(id, group+".") }

// stamped is a balancer that adds the stamp to the metadata of its member.
type stamped struct {
	kgo.GroupBalancer
	stamp ProcessStamp
}

func (b stamped) JoinGroupMetadata(interests []string, current map[string][]int32, generation int32) []byte {
	text := b.GroupBalancer.JoinGroupMetadata(interests, current, generation)
	var meta kmsg.ConsumerMemberMetadata
	if err := meta.ReadFrom(text); err != nil {
		return text
	}
	meta.UserData = b.stamp.append(meta.UserData)
	return meta.AppendTo(nil)
}

// InstanceGuard finds out who has replaced a member of a group.
type InstanceGuard struct {
	group, instance string
	stamp           ProcessStamp
	log             *slog.Logger
	// Joined is set once this process was in the group. Before that, the group may still show a
	// dead predecessor; afterwards it shows this process or its replacement.
	Joined atomic.Bool
}

func NewInstanceGuard(cfg Config, group string, log *slog.Logger) *InstanceGuard {
	t := &InstanceGuard{group: group, instance: group + "." + cfg.InstanceName, stamp: cfg.Stamp, log: log}
	if t.stamp == (ProcessStamp{}) {
		t.stamp = process
	}
	t.stamp.Version = cfg.Version
	return t
}

func (t *InstanceGuard) Balancer() kgo.Opt {
	return kgo.Balancers(stamped{kgo.CooperativeStickyBalancer(), t.stamp})
}

// ownerPollInterval is how often Resolve asks the group.
const ownerPollInterval = 500 * time.Millisecond

// Resolve waits after fencing until the group shows which process has replaced this one, at most
// limit. An error means that the other process is older, so this one must end.
func (t *InstanceGuard) Resolve(ctx context.Context, client *kgo.Client, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		if member, theirs, found := t.currentOwner(ctx, client); found {
			since := time.UnixMilli(theirs.Started).UTC().Format(time.RFC3339)
			if theirs.Started < t.stamp.Started || theirs.Started == t.stamp.Started && theirs.ID < t.stamp.ID {
				return fmt.Errorf("another process runs under this instance name, %q, and is older than this one: "+
					"client id %q at %s, started %s; give each process of a role an instance name of its own",
					t.instance, member.ClientID, member.ClientHost, since)
			}
			t.log.Error("another, younger process runs under this instance name and will end; "+
				"give each process of a role a name of its own",
				"instance", t.instance, "client_id", member.ClientID, "address", member.ClientHost, "started", since)
			Pause(ctx, ownerPollInterval/2)
			return nil
		}
		left := time.Until(deadline)
		if left <= 0 || !Pause(ctx, min(left, ownerPollInterval)) {
			return nil
		}
	}
}

// currentOwner is the process that has replaced this one in the group.
func (t *InstanceGuard) currentOwner(ctx context.Context, client *kgo.Client) (member kadm.DescribedGroupMember,
	theirs ProcessStamp, found bool) {
	if !t.Joined.Load() {
		return member, theirs, false
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	groups, err := kadm.NewClient(client).DescribeGroups(ctx, t.group)
	if err != nil {
		t.log.Warn("cannot look up which process has taken this instance name", "error",
			ExplainConnection(WithGrantHint(err, "Describe", OfGroup, t.group)))
		return member, theirs, false
	}
	for _, member := range groups[t.group].Members {
		if member.InstanceID == nil || *member.InstanceID != t.instance {
			continue
		}
		// During a rebalance the answer has no metadata of members.
		meta, ok := member.Join.AsConsumer()
		if !ok || len(meta.Topics) == 0 {
			return member, theirs, false
		}
		theirs = StampOf(meta.UserData)
		return member, theirs, theirs != t.stamp
	}
	return member, theirs, false
}
