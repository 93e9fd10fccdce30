package graphgate

import (
	"strconv"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/schemas"
)

// bulk is a valid body of POST /presence/followers.
type bulk struct {
	add, remove []graph.Edge
	mutual      bool
}

// decodeBulk reads a body with at most so many entries. Every error is a *schemas.FieldError that
// names the entry.
func decodeBulk(body []byte, most int, users users) (b bulk, err error) {
	seen := strictjson.Fields{Known: []string{"add", "remove", "mutual"}}
	r := strictjson.NewReader("body", body)
	err = r.Document(func(key []byte) error {
		field, err := seen.Take(key)
		if err != nil {
			return err
		}
		switch field {
		case "add":
			b.add, err = edges(r, field, users)
		case "remove":
			b.remove, err = edges(r, field, users)
		case "mutual":
			b.mutual, err = r.Bool(field)
		}
		return err
	})
	if err != nil {
		return bulk{}, err
	}
	switch entries := b.entries(); {
	case entries == 0:
		return bulk{}, schemas.Invalid("add", "must have an element, or remove must")
	case entries > most:
		return bulk{}, &schemas.FieldError{Code: "too_many_entries", Field: "add", Reason: "must have at most " +
			strconv.Itoa(most) + " elements together with remove, has " + strconv.Itoa(entries)}
	}
	return b, b.check()
}

func (b *bulk) entries() int { return len(b.add) + len(b.remove) }

// check refuses an edge that is added and removed. A list may name an edge twice.
func (b *bulk) check() error {
	added := make(map[graph.Edge]bool, len(b.add))
	for _, e := range b.add {
		added[b.canonical(e)] = true
	}
	for i, e := range b.remove {
		if added[b.canonical(e)] {
			return &schemas.FieldError{Code: codeConflict, Field: "remove[" + strconv.Itoa(i) + "]", Reason: "must not be in add too"}
		}
	}
	return nil
}

// canonical is the same edge for both directions of a mutual one.
func (b *bulk) canonical(e graph.Edge) graph.Edge {
	if b.mutual && e.User > e.Follower {
		return mirrored(e)
	}
	return e
}

func mirrored(e graph.Edge) graph.Edge { return graph.Edge{User: e.Follower, Follower: e.User} }

// directed returns edges, with the other direction of each if they are mutual.
func (b *bulk) directed(edges []graph.Edge) []graph.Edge {
	if b.mutual {
		for _, e := range edges {
			edges = append(edges, mirrored(e))
		}
	}
	return edges
}

// edges reads a list.
func edges(r *strictjson.Reader, list string, users users) (all []graph.Edge, err error) {
	err = r.Array(func(int) error {
		e, err := edge(r, users)
		all = append(all, e)
		return err
	})
	if err != nil {
		err = r.Within(list, err)
	}
	return all, err
}

func edge(r *strictjson.Reader, users users) (e graph.Edge, err error) {
	seen := strictjson.Fields{Known: []string{"user_id", "follower_id"}}
	err = r.Object(func(key []byte) error {
		field, err := seen.Take(key)
		if err != nil {
			return err
		}
		text, err := r.Scalar()
		if err != nil {
			return err
		}
		id, err := users.parse(field, string(text))
		if field == "user_id" {
			e.User = id
		} else {
			e.Follower = id
		}
		return err
	})
	if err == nil && e.User == 0 {
		_, err = users.parse("user_id", "")
	}
	if err == nil && e.Follower == 0 {
		_, err = users.parse("follower_id", "")
	}
	if err == nil {
		err = checkEdge(e)
	}
	return e, err
}

// codeConflict is of requests whose parts are valid but contradict each other. They are answered
// with 409, because no schema can say it.
const codeConflict = "conflict"

func checkEdge(e graph.Edge) error {
	if e.User == e.Follower {
		return &schemas.FieldError{Code: codeConflict, Field: "follower_id", Reason: "must not be the user"}
	}
	return nil
}
