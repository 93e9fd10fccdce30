package virtual

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// row is a beat as the HTTP endpoint takes it.
type row struct {
	User   schemas.UserID   `json:"user_id,string"`
	Device schemas.DeviceID `json:"device_id"`
	Kind   string           `json:"device_kind,omitempty"`
	Bye    bool             `json:"bye,omitempty"`
	Age    schemas.Millis   `json:"-"`
	Idle   schemas.Millis   `json:"-"`
}

// MarshalJSON writes ages as numbers; schemas.Millis writes itself as a date.
func (r row) MarshalJSON() ([]byte, error) {
	type plain row
	return json.Marshal(struct {
		plain
		Age  int64 `json:"age_ms,omitempty"`
		Idle int64 `json:"idle_ms,omitempty"`
	}{plain(r), int64(r.Age), int64(r.Idle)})
}

// began is when gateways began: 2026-11-21, when the earliest world begins.
const began = schemas.Millis(1_795_219_200_000)

// gateway is who sends over HTTP; the zero value sends without a gateway id.
type gateway struct {
	ID    string         `json:"gateway_id,omitempty"`
	Epoch schemas.Millis `json:"-"`
}

// post sends beats and tells the status of the answer.
func (w *world) post(base string, g gateway, rows ...row) int {
	w.Helper()
	body := map[string]any{"beats": append([]row{}, rows...)} // an empty list, not null
	if g.ID != "" {
		body["gateway_id"], body["gateway_epoch"] = g.ID, fmt.Sprint(int64(g.Epoch))
	}
	status, _ := w.ask(http.MethodPost, base+"/presence/heartbeats", body)
	return status
}

// mustPost is post that must be accepted.
func (w *world) mustPost(base string, g gateway, rows ...row) {
	w.Helper()
	if status := w.post(base, g, rows...); status != http.StatusAccepted {
		w.Errorf("the beats %v are answered %d", rows, status)
	}
}

// show sets a user's visibility.
func (w *world) show(base string, user schemas.UserID, visibility string) {
	w.Helper()
	status, answer := w.ask(http.MethodPut, fmt.Sprintf("%s/presence/%d/visibility", base, user), map[string]string{"visibility": visibility})
	if status != http.StatusOK {
		w.Errorf("the visibility of %d is answered %d %s", user, status, answer)
	}
}

// ask sends a request; a body that is not nil goes as JSON.
func (w *world) ask(method, url string, body any) (int, []byte) {
	w.Helper()
	status, text := w.send(context.Background(), method, url, body)
	if status == 0 {
		w.Errorf("%s %s: %s", method, url, text)
	}
	return status, text
}

// try is ask that may fail, after five seconds at most: the status is 0 then.
func (w *world) try(method, url string, body any) (int, []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return w.send(ctx, method, url, body)
}

// metricIs checks a metric without labels.
func (w *world) metricIs(want, name string, of ...*process) {
	w.Helper()
	for _, p := range of {
		_, text := w.ask(http.MethodGet, p.admin+"/metrics", nil)
		_, rest, _ := strings.Cut(string(text), "\n"+name+" ")
		if got, _, _ := strings.Cut(rest, "\n"); got != want {
			w.Errorf("%s: %s is %s, not %s", p.name, name, got, want)
		}
	}
}

// send sends a request. A status of 0 is none, and the text is why.
func (w *world) send(ctx context.Context, method, url string, body any) (int, []byte) {
	var content io.Reader
	if body != nil {
		text := must.Get(json.Marshal(body))(w)
		content = bytes.NewReader(text)
	}
	request := must.Get(http.NewRequestWithContext(ctx, method, url, content))(w)
	request.Header.Set("Content-Type", "application/json")
	answer, err := w.http.Do(request)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return answer.StatusCode, text
}

// socket is an open /presence/connect.
type socket struct {
	w      *world
	conn   *websocket.Conn
	closed chan struct{} // when nothing can be read any more
	end    error         // why, then

	mu    sync.Mutex // protects heard
	heard []string   // messages
}

// connect opens a socket, which is the device's first beat.
func (w *world) connect(base string, user schemas.UserID, device schemas.DeviceID, kind string) *socket {
	w.Helper()
	return w.connectIdle(base, user, device, kind, 0)
}

func (w *world) connectIdle(base string, user schemas.UserID, device schemas.DeviceID, kind string, idle schemas.Millis) *socket {
	w.Helper()
	return w.connectAs(base, fmt.Sprintf("user_id=%d&device_id=%d&device_kind=%s&idle_ms=%d", user, device, kind, idle))
}

func (w *world) connectAs(base, query string) *socket {
	w.Helper()
	url := strings.Replace(base, "http", "ws", 1) + "/presence/connect?" + query
	//nolint:bodyclose // Dial has read the body; it needs no closing, it says.
	conn, _, err := websocket.Dial(context.Background(), url, &websocket.DialOptions{HTTPClient: w.http})
	if err != nil {
		w.Fatalf("connecting as %s: %v", query, err)
	}
	conn.SetReadLimit(4 << 20) // a snapshot of 500 users
	s := &socket{w: w, conn: conn, closed: make(chan struct{})}
	// Pongs are taken only while somebody reads.
	go func() {
		defer close(s.closed)
		for {
			_, message, err := conn.Read(context.Background())
			if err != nil {
				s.end = err
				return
			}
			s.mu.Lock()
			s.heard = append(s.heard, string(message))
			s.mu.Unlock()
		}
	}()
	return s
}

// hellos are the hellos heard so far.
func (s *socket) hellos() []string {
	return slices.DeleteFunc(s.messages(), func(m string) bool { return !strings.Contains(m, `"hello"`) })
}

// heardOf counts the messages heard so far that begin with head.
func (s *socket) heardOf(head string) (n int) {
	for _, m := range s.messages() {
		if strings.HasPrefix(m, head) {
			n++
		}
	}
	return n
}

// messages are those heard so far.
func (s *socket) messages() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.heard...)
}

// ping beats; what the device last said of idleness goes on growing.
func (s *socket) ping() {
	s.w.Helper()
	if err := s.conn.Ping(context.Background()); err != nil {
		<-s.closed
		s.w.Errorf("pinging: %v, and the socket is %v", err, s.end)
	}
}

// say sends a message.
func (s *socket) say(message string) {
	s.w.Helper()
	if err := s.conn.Write(context.Background(), websocket.MessageText, []byte(message)); err != nil {
		s.w.Errorf("sending %s: %v", message, err)
	}
}

// leave closes in good order, which is a bye.
func (s *socket) leave() {
	s.w.Helper()
	if err := s.conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		s.w.Errorf("closing: %v", err)
	}
	<-s.closed
}

// lose breaks the connection without a word.
func (s *socket) lose() {
	_ = s.conn.CloseNow()
	<-s.closed
}
