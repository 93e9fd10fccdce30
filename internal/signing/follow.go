package signing

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/stillhere/stillhere/internal/tick"
)

// Open are the Keys of a file of masters.
func Open(path string) (*Keys, error) {
	used := contents(path) // before it is read: what is written meanwhile is a change
	masters, err := ReadMasters(path)
	if err != nil {
		return nil, err
	}
	k := Of(masters)
	k.path, k.used, k.read = path, used, func() error {
		masters, err := ReadMasters(path)
		if err == nil {
			k.Replace(masters)
		}
		return err
	}
	return k, nil
}

// OpenGateway is the key of the gateway with the id in a file.
func OpenGateway(path string) (*Keys, GatewayKey, error) {
	used := contents(path)
	key, err := ReadGatewayKey(path)
	if err != nil {
		return nil, key, err
	}
	k := OfGateway(key)
	k.path, k.used, k.read = path, used, func() error {
		next, err := ReadGatewayKey(path)
		if err == nil && next.Gateway != key.Gateway {
			err = fmt.Errorf("the key is of gateway %q, and this is %q", next.Gateway, key.Gateway)
		}
		if err == nil {
			k.ReplaceGateway(next)
		}
		return err
	}
	return k, key, nil
}

// Follow puts into force what the file of k holds, until ctx ends. It takes what two looks in a row find, because
// a file may be read while it is written. After an error the keys stay as they are. Keys without a file never change.
func (k *Keys) Follow(ctx context.Context, every time.Duration, log *slog.Logger) {
	if k == nil || k.path == "" {
		<-ctx.Done()
		return
	}
	seen := [sha256.Size]byte{}
	for range tick.Later(ctx, every) {
		now := contents(k.path)
		if now == k.used || now != seen {
			seen = now
			continue
		}
		k.used = now
		if err := k.read(); err != nil {
			log.Error("the changed file of frame keys is not used, the keys before it stay in force", "error", err)
			continue
		}
		log.Info("the file of frame keys has changed and is in force", "signs", k.KeyID(), "masters", k.Fingerprints())
	}
}

// contents is a hash of the file, or of why it cannot be read.
func contents(path string) [sha256.Size]byte {
	text, err := os.ReadFile(path)
	if err != nil {
		text = []byte(err.Error())
	}
	return sha256.Sum256(text)
}
