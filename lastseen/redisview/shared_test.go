package redisview

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func TestReadersWhoShareARoundTripEachGetTheirOwnUsers(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		const users, readers, reads = 300, 16, 60
		log := make([]*schemas.Transition, users)
		for i := range log {
			log[i] = &schemas.Transition{User: schemas.UserID(i + 1), From: schemas.Offline, To: schemas.Online, At: 1000 + schemas.Millis(i),
				Visibility: schemas.Everyone, Version: schemas.Version(i + 1)}
		}
		if _, err := v.Write(t.Context(), 1, store.Fold(log)); err != nil {
			t.Fatal(err)
		}
		faults := make([]error, readers)
		var all sync.WaitGroup
		for reader := range readers {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(reader), 1))
				for range reads {
					ids := make([]schemas.UserID, 1+random.IntN(50))
					for i := range ids {
						ids[i] = schemas.UserID(1 + random.IntN(users+20)) // some are not there
					}
					entries, _, err := v.Read(t.Context(), ids)
					if err != nil {
						faults[reader] = err
						return
					}
					for i, id := range ids {
						if e := entries[i]; e.Found != (id <= users) || e.Found && e.Version != schemas.Version(id) {
							faults[reader] = errors.Join(faults[reader], fmt.Errorf("user %d is %+v", id, e))
						}
					}
				}
			})
		}
		all.Wait()
		if err := errors.Join(faults...); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAReaderWhoseTimeIsOverDoesNotWaitForTheOthers(t *testing.T) {
	t.Parallel()
	v := open(t, redistest.Mini(t))
	v.sharedReads.running = maxReads // nobody lands
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := v.Read(ctx, []schemas.UserID{1}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	f := v.sharedReads.release()
	f.users.Add(1) // keeps it
	v.runBatches(f)
	v.sharedReads.running = 0
	if f.err != nil || len(f.got) != slotLength {
		t.Errorf("the others got %q, %v", f.got, f.err)
	}
}

// parseReply gives a reply to an mget as go-redis does (proto.Reader.ReadRawReplyWriteTo).
func parseReply(reply string, users int, got values) (tag []byte, err error) {
	m := new(mget)
	m.of(context.Background(), "presence:", "presence:rebuilds", make([]schemas.UserID, users), got)
	r := bufio.NewReader(strings.NewReader(reply))
	for err == nil {
		var line string
		if line, err = r.ReadString('\n'); err != nil {
			break // the end
		}
		line = strings.TrimSuffix(line, "\r\n")
		_, _ = m.Write([]byte(line))
		_, _ = m.Write([]byte("\r\n"))
		if length, failed := strconv.Atoi(line[1:]); line[0] == '$' && failed == nil && length >= 0 {
			if _, err := io.CopyN(m, r, int64(length)+2); err != nil {
				return nil, err
			}
		}
	}
	return m.end()
}

func TestAnswersThatAreNotThoseOfMGETAreErrors(t *testing.T) {
	t.Parallel()
	const users = 2
	for good, tag := range map[string]string{
		"*3\r\n$-1\r\n$-1\r\n$-1\r\n": "", "*3\r\n_\r\n_\r\n_\r\n": "", "*3\r\n$1\r\nx\r\n$0\r\n\r\n$3\r\nabc\r\n": "abc",
	} {
		got := make(values, users*slotLength)
		told, err := parseReply(good, users, got)
		if err != nil || parseValue(1, got.of(0)).Found || parseValue(1, got.of(1)).Found || string(told) != tag {
			t.Errorf("%q is read as %q, %q, %v", good, got, told, err)
		}
	}
	for _, bad := range []string{"", "*", "*3\r\n", "*2\r\n$-1\r\n$-1\r\n", "*3\r\n$5\r\nx\r\n", ":3\r\n", "$2\r\nxx\r\n",
		"*3\r\n$99999999999999999999\r\n", "*3\r\n$-1\r\n$-1\r\n", "*3\r\n$-1\r\n$-1\r\n*0\r\n", "*3\r\n*0\r\n*0\r\n",
		"-LOADING Redis is loading\r\n", "*-1\r\n"} {
		got := make(values, users*slotLength)
		if _, err := parseReply(bad, users, got); err == nil {
			t.Errorf("%q is read as %q", bad, got)
		} else if strings.HasPrefix(bad, "-") && !strings.Contains(err.Error(), "LOADING") {
			t.Errorf("error %v", err)
		}
	}
}
