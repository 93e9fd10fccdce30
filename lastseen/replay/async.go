package replay

import (
	"os"
	"sync/atomic"
)

const (
	// maxQueued is how many pieces of a file may wait to be written. Then write waits.
	maxQueued = 8
	// syncBytes is after how much a file is synced, so that what is left to be made
	// durable at its end does not take seconds.
	syncBytes = 64 << 20
)

// asyncWriter writes pieces to a file in a goroutine of its own.
type asyncWriter struct {
	pieces, free chan []byte
	ended        chan error
	failed       atomic.Pointer[error]
}

func startAsyncWriter(file *os.File) *asyncWriter {
	w := &asyncWriter{pieces: make(chan []byte, maxQueued), free: make(chan []byte, maxQueued+1), ended: make(chan error, 1)}
	go func() { w.ended <- w.run(file) }()
	return w
}

// run writes until there are no more pieces. After an error it takes them and
// throws them away.
func (w *asyncWriter) run(file *os.File) error {
	var failed error
	unsynced := 0
	for piece := range w.pieces {
		if failed == nil {
			_, failed = file.Write(piece)
			if unsynced += len(piece); failed == nil && unsynced >= syncBytes {
				unsynced, failed = 0, file.Sync()
			}
			if failed != nil {
				w.failed.Store(&failed)
			}
		}
		select {
		case w.free <- piece:
		default:
		}
	}
	return failed
}

// write copies p and hands it on, waiting while too many pieces are queued.
func (w *asyncWriter) write(p []byte) (int, error) {
	if failed := w.failed.Load(); failed != nil {
		return 0, *failed
	}
	var piece []byte
	select {
	case piece = <-w.free:
	default:
	}
	w.pieces <- append(piece[:0], p...)
	return len(p), nil
}

// end waits until everything has been written.
func (w *asyncWriter) end() error {
	close(w.pieces)
	return <-w.ended
}
