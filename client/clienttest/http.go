package clienttest

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	answer := func(pattern string, of func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			what, err := of(r)
			s.mu.Unlock()
			if err != nil {
				web.Write(w, http.StatusBadRequest, err)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(what) // if this fails the caller has disconnected
		})
	}
	answer("GET /presence/batch", func(r *http.Request) (any, error) {
		states := map[string]*string{}
		for _, text := range s.users.List(r.URL.Query()["user_ids"]) {
			user, _, err := s.user(r, "user_ids", text)
			if err != nil {
				return nil, err
			}
			states[text] = s.presence(user).State
		}
		return states, nil
	})
	answer("POST /presence/batch", s.batch)
	answer("POST /presence/changes", s.changes)
	answer("GET /presence/{user_id}", func(r *http.Request) (any, error) {
		user, name, err := s.userIn(r)
		return s.called(user, name, s.presence(user)), err
	})
	answer("GET /presence/{user_id}/history", s.history)
	answer("GET /presence/{user_id}/visibility", func(r *http.Request) (any, error) {
		user, _, err := s.userIn(r)
		return map[string]any{"user_id": web.UserOf(r), "visibility": schemas.VisibilityWord(s.current[user].Visibility)}, err
	})
	mux.HandleFunc("GET /presence/stream", s.stream)
	return web.Alias(mux)
}

// askedUsers is the body of a read of several users.
type askedUsers struct {
	UserIDs []string `json:"user_ids"`
	Detail  bool     `json:"detail"`
	Since   string   `json:"since"`
}

// several reads the body and calls do for each user. The caller holds the lock.
func (s *Server) several(r *http.Request, do func(asked askedUsers, text string, user schemas.UserID, name schemas.Name)) (asked askedUsers, err error) {
	if json.NewDecoder(r.Body).Decode(&asked) != nil {
		return asked, schemas.Invalid("body", "must be JSON")
	}
	if len(asked.UserIDs) == 0 {
		return asked, schemas.Invalid("user_ids", "must name at least one user")
	}
	for _, text := range asked.UserIDs {
		user, name, err := s.user(r, "user_ids", text)
		if err != nil {
			return asked, err
		}
		do(asked, text, user, name)
	}
	return asked, nil
}

// batch answers a batch read with a body. The caller holds the lock.
func (s *Server) batch(r *http.Request) (any, error) {
	states, users := map[string]*string{}, []any{}
	asked, err := s.several(r, func(_ askedUsers, text string, user schemas.UserID, name schemas.Name) {
		p := s.presence(user)
		users, states[text] = append(users, s.called(user, name, p)), p.State
	})
	if err == nil && asked.Detail {
		return map[string]any{"users": users}, nil
	}
	return states, err
}

// changes answers what was missed of users. The caller holds the lock.
func (s *Server) changes(r *http.Request) (any, error) {
	users, changes := []any{}, []any{}
	asked, err := s.several(r, func(asked askedUsers, _ string, user schemas.UserID, name schemas.Name) {
		users = append(users, s.called(user, name, s.presence(user)))
		for _, p := range s.after(user, asked.Since) {
			changes = append(changes, s.called(user, name, p))
		}
	})
	if err == nil && asked.Since == "" {
		return map[string]any{"resync": true, "reason": "start", "users": users, "cursor": s.cursor(), "more": false}, nil
	}
	return map[string]any{"resync": false, "changes": changes, "cursor": s.cursor(), "more": false}, err
}

// cursor is the version of the last change of all. The caller holds the lock.
func (s *Server) cursor() string { return s.version.String() }

// after are the visible changes of a user after a cursor. The caller holds the lock.
func (s *Server) after(user schemas.UserID, cursor string) []schemas.Presence {
	since := schemas.Presence{Version: cursor}
	if now := s.presence(user); now.State == nil {
		if now.Newer(since) {
			return []schemas.Presence{now}
		}
		return nil
	}
	var changes []schemas.Presence
	var c schemas.Current
	for _, t := range s.log[user] {
		if c = c.After(t); t.Visibility != schemas.Nobody {
			if p := schemas.PresenceOf(c, 0); p.Newer(since) {
				changes = append(changes, p)
			}
		}
	}
	return changes
}

// history returns a page. A cursor is the number of changes before it. The caller holds the lock.
func (s *Server) history(r *http.Request) (any, error) {
	user, _, err := s.userIn(r)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	from, _ := strconv.ParseInt(query.Get("from"), 10, 64) // none is no bound
	to, _ := strconv.ParseInt(query.Get("to"), 10, 64)
	var changes []map[string]any
	if s.current[user].Visibility != schemas.Nobody {
		for _, t := range slices.Backward(s.log[user]) {
			if int64(t.At) < from || to != 0 && int64(t.At) >= to {
				continue
			}
			changes = append(changes, map[string]any{
				"event_id": t.EventID().String(), "from": schemas.StateWord(t.From), "to": schemas.StateWord(t.To),
				"at": t.At, "last_seen_at": t.LastSeen, "last_active_at": t.LastActive,
				"cause": schemas.CauseWord(t.Cause), "devices": t.Kinds.Words(), "version": t.Version.String()})
		}
	}
	before, _ := strconv.Atoi(query.Get("cursor"))
	limit, _ := strconv.Atoi(query.Get("limit"))
	page := changes[min(before, len(changes)):]
	var next *string
	if limit > 0 && len(page) > limit {
		page = page[:limit]
		cursor := strconv.Itoa(before + limit)
		next = &cursor
	}
	return map[string]any{"changes": page, "next_cursor": next}, nil
}

// viewer is one connection of a watcher.
type viewer struct {
	conn  *websocket.Conn
	opens *http.Request           // names the tenant
	users map[schemas.UserID]bool // under the server's lock
	out   chan []byte
}

// maxWaiting bounds the messages that wait for a watcher; beyond it the watcher is disconnected.
const maxWaiting = 1000

// send queues a message about a user, or users.
func (v *viewer) send(kind string, about any, cursor string) {
	name := "user"
	if kind == "snapshot" {
		name = "users"
	}
	text, err := json.Marshal(map[string]any{"type": kind, name: about, "cursor": cursor})
	if err != nil {
		panic(err) // schemas.Presence can always be encoded
	}
	select {
	case v.out <- text:
	default:
		_ = v.conn.CloseNow()
	}
}

// stream serves a watcher.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has answered
	}
	v := &viewer{conn: conn, opens: r, users: map[schemas.UserID]bool{}, out: make(chan []byte, maxWaiting)}
	s.mu.Lock()
	s.viewers[v] = true
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(s.ctx) // r's ends when the connection is taken over
	var writer sync.WaitGroup
	writer.Go(func() { v.write(ctx) })
	v.out <- schemas.HelloMessage(schemas.DefaultPolicy().Schedule(), 500)
	for {
		_, text, err := conn.Read(ctx)
		if err != nil {
			break
		}
		s.asked(v, text)
	}
	s.mu.Lock()
	delete(s.viewers, v)
	s.mu.Unlock()
	cancel()
	_ = conn.CloseNow()
	writer.Wait()
}

// write sends queued messages until ctx ends.
func (v *viewer) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case text := <-v.out:
			if v.conn.Write(ctx, websocket.MessageText, text) != nil {
				_ = v.conn.CloseNow()
				return
			}
		}
	}
}

// asked handles a message of a watcher.
func (s *Server) asked(v *viewer, text []byte) {
	var m struct {
		Type    string   `json:"type"`
		UserIDs []string `json:"user_ids"`
		Since   string   `json:"since"`
	}
	if json.Unmarshal(text, &m) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	users, missed := []any{}, []any{}
	for _, id := range m.UserIDs {
		user, name, err := s.user(v.opens, "user_ids", id)
		if err != nil {
			continue
		}
		v.users[user] = m.Type == "subscribe"
		users = append(users, s.called(user, name, s.presence(user)))
		for _, p := range s.after(user, m.Since) {
			missed = append(missed, s.called(user, name, p))
		}
	}
	switch {
	case m.Type != "subscribe":
	case m.Since == "":
		v.send("snapshot", users, s.cursor())
	default:
		for _, p := range missed {
			v.send("change", p, m.Since) // of all of them only the last is the end
		}
		v.send("resumed", nil, s.cursor())
	}
}
