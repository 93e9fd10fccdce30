package replay

import (
	"os"
	"sync/atomic"
)

const (
	// piecesBehind is how many pieces of a file may wait to be written.
	piecesBehind = 8
	// syncBytes is after how much a file is synced, so that what is left to be made
	// durable at its end does not take seconds.
	syncBytes = 64 << 20
)

// behind writes pieces to a file in a goroutine of its own.
type behind struct {
	pieces, free chan []byte
	ended        chan error
	failed       atomic.Pointer[error]
}

func startBehind(file *os.File) *behind {
	b := &behind{pieces: make(chan []byte, piecesBehind), free: make(chan []byte, piecesBehind+1), ended: make(chan error, 1)}
	go func() { b.ended <- b.run(file) }()
	return b
}

// run writes until there are no more pieces. After an error it takes them and
// throws them away.
func (b *behind) run(file *os.File) error {
	var failed error
	unsynced := 0
	for piece := range b.pieces {
		if failed == nil {
			_, failed = file.Write(piece)
			if unsynced += len(piece); failed == nil && unsynced >= syncBytes {
				unsynced, failed = 0, file.Sync()
			}
			if failed != nil {
				b.failed.Store(&failed)
			}
		}
		select {
		case b.free <- piece:
		default:
		}
	}
	return failed
}

// write copies p and hands it on, waiting while too much is behind.
func (b *behind) write(p []byte) (int, error) {
	if failed := b.failed.Load(); failed != nil {
		return 0, *failed
	}
	var piece []byte
	select {
	case piece = <-b.free:
	default:
	}
	b.pieces <- append(piece[:0], p...)
	return len(p), nil
}

// end waits until everything has been written.
func (b *behind) end() error {
	close(b.pieces)
	return <-b.ended
}
