// Command receiver is an example of a receiver of `stillhere channel webhook`: it checks the
// signature, drops duplicates, and prints who is to be notified of what.
//
//	go run ./fanout/channel/examples/receiver -listen 127.0.0.1:9000 -secret "$(cat FILE)"
//	stillhere channel webhook --url http://127.0.0.1:9000/ --secret-file FILE
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "where to listen")
	secret := flag.String("secret", os.Getenv("STILLHERE_SECRET"), "the secret of the webhook")
	flag.Parse()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s/\n", l.Addr())
	server := &http.Server{Handler: &receiver{secret: []byte(*secret), seen: map[string]bool{}}, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.Serve(l))
}

type receiver struct {
	secret []byte

	mu   sync.Mutex
	seen map[string]bool // a real receiver would store this in its database, for a day
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	if err := schemas.VerifyNotice(r.secret, request.Header.Get(schemas.SignatureHeader), body, time.Now(), 5*time.Minute); err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	var m schemas.NoticeMessage
	if err := json.Unmarshal(body, &m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// The same as the header Idempotency-Key, but signed: an attacker who replays a request within
	// five minutes could change the header.
	if !r.seen[m.ID] {
		r.seen[m.ID] = true
		user := "whose name is not known"
		if m.UserID != nil {
			user = *m.UserID
		}
		for _, recipient := range m.Recipients {
			fmt.Printf("tell %s: user %s is %s\n", recipient, user, m.State)
		}
	}
	w.WriteHeader(http.StatusNoContent)
}
