//go:build unix

package load_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// victims are users of the attackers' own: nobody honest has these ids.
const victims = schemas.UserID(1_000_000)

// claimed is how many users the gateway reports as present.
const claimed = 20_000

// tally counts what came back.
type tally struct {
	mu sync.Mutex
	of map[string]int
}

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of[what]++
}

// sum is how many attempts there were.
func (t *tally) sum() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range t.of {
		n += of
	}
	return n
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for what, n := range t.of {
		parts = append(parts, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// spec is an attack that is made again and again, so many at a time, with a pause between.
type spec struct {
	size   int
	every  time.Duration
	attack func(context.Context, *tally)
}

// run makes each attack again and again, so many at a time, with a pause between.
func run(ctx context.Context, results *tally, specs ...spec) {
	var all sync.WaitGroup
	for _, c := range specs {
		for range c.size {
			all.Go(func() {
				for pause(ctx, time.Duration((0.5+rand.Float64())*float64(c.every))) {
					c.attack(ctx, results)
				}
			})
		}
	}
	all.Wait()
}

// request sends a request and counts its answer.
func (at target) request(ctx context.Context, results *tally, name, method, path, token string, body []byte, header ...string) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+at.api+path, bytes.NewReader(body))
	if err != nil {
		panic(err) // the requests are this test's own
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		results.add(name + " no answer")
		return
	}
	_, _ = io.Copy(io.Discard, answer.Body) // an attacker does not care
	_ = answer.Body.Close()
	results.add(fmt.Sprintf("%s %d", name, answer.StatusCode))
}

// raw says something on a connection and holds it for as long as it lasts, 20 s at most.
func raw(ctx context.Context, results *tally, name, address, what string) {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		results.add(name + " no connection")
		return
	}
	defer func() { _ = conn.Close() }()
	begun := time.Now()
	_, _ = io.WriteString(conn, what)
	_ = conn.SetReadDeadline(begun.Add(20 * time.Second))
	_, _ = io.Copy(io.Discard, conn)
	if held := time.Since(begun); held > 18*time.Second {
		results.add(name + " held")
		return
	}
	results.add(name + " closed")
}

// anonymous callers have no token.
func anonymous(ctx context.Context, at target, results *tally) {
	say := func(name, address, what string) func(context.Context, *tally) {
		return func(ctx context.Context, t *tally) { raw(ctx, t, name, address, what) }
	}
	head := func(line string, headers ...string) string {
		return line + " HTTP/1.1\r\n" + strings.Join(append([]string{"Host: " + at.api}, headers...), "\r\n") + "\r\n\r\n"
	}
	run(ctx, results,
		spec{40, 200 * time.Millisecond, say("unread body", at.api, head("POST /presence/heartbeats", "Content-Length: 1000"))},
		spec{10, 200 * time.Millisecond, say("unread body, admin", at.admin, "POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")},
		spec{50, 100 * time.Millisecond, say("silence", at.api, "")},
		spec{50, 100 * time.Millisecond, say("half a head", at.api, "GET /presence/1 HTTP/1.1\r\nHost: x\r\nX: ")},
		spec{2, 100 * time.Millisecond, say("two lengths", at.api, head("POST /presence/heartbeats", "Content-Length: 5", "Transfer-Encoding: chunked")+"0\r\n\r\nGET /presence/1 HTTP/1.1\r\n\r\n")},
		spec{2, 100 * time.Millisecond, say("garbage", at.api, "\x16\x03\x01\x00\xff\x00\x00\r\n\r\n")},
		spec{4, 50 * time.Millisecond, func(ctx context.Context, t *tally) {
			at.request(ctx, t, "forged token", http.MethodGet, "/presence/1", userToken(victims)+"x", nil)
		}},
		spec{2, time.Second, func(ctx context.Context, t *tally) {
			at.request(ctx, t, "long body", http.MethodPost, "/presence/heartbeats", "", make([]byte, 4<<20))
		}},
	)
}

// users have tokens of their own.
func users(ctx context.Context, at target, results *tally) {
	tokens := make([]string, 50)
	for i := range tokens {
		tokens[i] = userToken(victims + schemas.UserID(i))
	}
	one := func() (schemas.UserID, string) {
		i := rand.IntN(len(tokens))
		return victims + schemas.UserID(i), tokens[i]
	}
	many := func(user schemas.UserID, devices int) []byte {
		rows := make([]string, devices)
		for i := range rows {
			rows[i] = fmt.Sprintf(`{"user_id":"%d","device_id":%d}`, user, 1+rand.Uint32N(1<<31))
		}
		return []byte(`{"beats":[` + strings.Join(rows, ",") + `]}`)
	}
	run(ctx, results,
		spec{1, 6 * time.Second, func(ctx context.Context, t *tally) {
			user, token := one()
			at.request(ctx, t, "10,000 devices", http.MethodPost, "/presence/heartbeats", token, many(user, 10_000))
		}},
		spec{2, 50 * time.Millisecond, func(ctx context.Context, t *tally) {
			user, token := one()
			body := fmt.Sprintf(`{"beats":[{"user_id":"%[1]d","device_id":1,"device_kind":"web"},{"user_id":"%[1]d","device_id":2,"device_kind":"mobile","bye":%[2]t}]}`, user, rand.IntN(2) == 0)
			at.request(ctx, t, "flapping", http.MethodPost, "/presence/heartbeats", token, []byte(body))
		}},
		spec{200, 500 * time.Millisecond, func(ctx context.Context, t *tally) {
			_, token := one()
			raw(ctx, t, "slow body", at.api, "POST /presence/heartbeats HTTP/1.1\r\nHost: "+at.api+"\r\nAuthorization: Bearer "+token+"\r\nContent-Length: 1000\r\n\r\n{")
		}},
		spec{2, 50 * time.Millisecond, func(ctx context.Context, t *tally) {
			user, token := one()
			visibility := []string{"nobody", "everyone"}[rand.IntN(2)]
			at.request(ctx, t, "visibility", http.MethodPut, "/presence/"+user.String()+"/visibility", token, []byte(`{"visibility":"`+visibility+`"}`))
		}},
		spec{2, 50 * time.Millisecond, func(ctx context.Context, t *tally) {
			_, token := one()
			at.request(ctx, t, "for another", http.MethodPost, "/presence/heartbeats", token, []byte(`{"beats":[{"user_id":"1","device_id":7,"bye":true}]}`))
		}},
		spec{4, 50 * time.Millisecond, func(ctx context.Context, t *tally) { pings(ctx, at, t, tokens[rand.IntN(len(tokens))]) }},
	)
}

// pings opens a socket and says a thousand things on it.
func pings(ctx context.Context, at target, results *tally, token string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, answer, err := websocket.Dial(ctx, "ws://"+at.api+"/presence/connect?device_id=9&access_token="+token, nil) //nolint:bodyclose // Dial has closed it
	if err != nil {
		status := 0
		if answer != nil {
			status = answer.StatusCode
		}
		results.add(fmt.Sprintf("socket %d", status))
		return
	}
	defer func() { _ = conn.CloseNow() }()
	for range 1000 {
		if conn.Write(ctx, websocket.MessageText, []byte(`{"type":"ping"}`)) != nil {
			results.add("socket cut")
			return
		}
	}
	results.add("socket 101")
}

// gateways have a token that beats for anybody.
func gateways(ctx context.Context, at target, results *tally) {
	token := tokenOf(auth.Caller{Gateway: "evil", Scopes: []string{auth.Beat}})
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 64<<20)) // a buffer takes everything
	_ = z.Close()
	run(ctx, results,
		spec{1, 5 * time.Second, func(ctx context.Context, t *tally) {
			rows := make([]string, 10_000)
			for i := range rows {
				rows[i] = fmt.Sprintf(`{"user_id":"%d","device_id":1}`, victims+1000+schemas.UserID(rand.IntN(claimed)))
			}
			at.request(ctx, t, "10,000 users", http.MethodPost, "/presence/heartbeats", token, []byte(`{"beats":[`+strings.Join(rows, ",")+`]}`))
		}},
		spec{2, 200 * time.Millisecond, func(ctx context.Context, t *tally) {
			at.request(ctx, t, "bomb", http.MethodPost, "/presence/heartbeats", token, bomb.Bytes(), "Content-Encoding", "gzip")
		}},
		spec{2, 50 * time.Millisecond, func(ctx context.Context, t *tally) {
			at.request(ctx, t, "another's name", http.MethodPost, "/presence/heartbeats", token, fmt.Appendf(nil, `{"gateway_id":"gw-%d","gateway_epoch":"%d","beats":[]}`, rand.IntN(1e6), time.Now().UnixMilli()))
		}},
		spec{2, 50 * time.Millisecond, func(ctx context.Context, t *tally) {
			at.request(ctx, t, "garbage", http.MethodPost, "/presence/heartbeats", token, bytes.Repeat([]byte("["), 100_000))
		}},
		spec{2, 50 * time.Millisecond, func(ctx context.Context, t *tally) {
			at.request(ctx, t, "visibility of another", http.MethodPut, "/presence/1/visibility", token, []byte(`{"visibility":"nobody"}`))
		}},
	)
}

// poison writes what nobody should into the topics, as one could who has Kafka's rights.
func poison(ctx context.Context, at target, results *tally) {
	producer, err := kafka.NewProducer(kafka.Config{Brokers: []string{at.kafka}, Prefix: schemas.DefaultPrefix}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		results.add(err.Error())
		return
	}
	defer func() { _ = producer.Close(context.WithoutCancel(ctx)) }()
	topics := []schemas.Topic{schemas.Heartbeats, schemas.Transitions, schemas.Deliveries, schemas.Fanout}
	run(ctx, results, spec{1, 50 * time.Millisecond, func(ctx context.Context, t *tally) {
		value := make([]byte, rand.IntN(200))
		for i := range value {
			value[i] = byte(rand.Uint32())
		}
		user := victims + schemas.UserID(rand.IntN(1000))
		out := schemas.Outgoing{Topic: topics[rand.IntN(len(topics))], Partition: 0, Key: user.Key(), Value: value}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := producer.AppendSync(ctx, out); err != nil {
			t.add(string(out.Topic) + " not written")
			return
		}
		t.add(string(out.Topic) + " written")
	}})
}
