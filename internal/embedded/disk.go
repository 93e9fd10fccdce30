package embedded

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrUnwritten is the error of a cluster whose data directory cannot be written.
var ErrUnwritten = errors.New("the data directory cannot be written")

// reserve is the free space below which the cluster takes no more writes: more than a request writes.
const reserve = 2 << 20

// disk stops a cluster at the first write that fails. kfake would log a warning and go on: it loses what it
// has acknowledged, and appends to files that end in the middle of an entry.
type disk struct {
	dir     string
	failed  func(error) // called at most once; nil: nobody asks
	report  sync.Once
	blocked atomic.Bool // a goroutine of the cluster is in unwritten
}

func (d *disk) fail(err error) {
	d.report.Do(func() {
		if d.failed != nil {
			d.failed(err)
		}
	})
}

// space is an error if the disk is all but full.
func (d *disk) space() error {
	if left := free(d.dir); left < reserve {
		return fmt.Errorf("%w: the disk of %s has %d kB left of %d that must be free; make space and start again",
			ErrUnwritten, d.dir, left>>10, reserve>>10)
	}
	return nil
}

// guard refuses requests that write while the disk is all but full, so that none is carried out in part.
// It closes the connection: the client does not know either.
func (d *disk) guard(cluster *kfake.Cluster) {
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.OffsetCommit, kmsg.InitProducerID, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.CreateTopics} {
		cluster.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			err := d.space()
			if err != nil {
				d.fail(err)
			}
			return nil, err, err != nil
		})
	}
}

// unwritten is called by the goroutine of the cluster that could not write something. It does not return,
// so that what was not written is not acknowledged. What it leaves in the files is what a kill leaves.
func (d *disk) unwritten(what string) {
	d.blocked.Store(true)
	d.fail(fmt.Errorf("%w (%s: %s); make space and start again", ErrUnwritten, d.dir, what))
	select {}
}
