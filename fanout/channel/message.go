package channel

import (
	"github.com/stillhere/stillhere/schemas"
)

// Message is a notice as JSON: the body of a webhook, a line of the log.
type Message struct {
	ID            string         `json:"id"`
	EventID       string         `json:"event_id"`
	UserID        schemas.UserID `json:"user_id,string"`
	State         string         `json:"state"`
	PreviousState string         `json:"previous_state"`
	Cause         string         `json:"cause"`
	At            schemas.Millis `json:"at"`
	LastSeenAt    schemas.Millis `json:"last_seen_at"`
	LastActiveAt  schemas.Millis `json:"last_active_at"`
	Devices       []string       `json:"devices"`
	Version       string         `json:"version"`
	// LeftOut is how many changes of the user just before this one were not published,
	// because the user changed too often; left out when there is none.
	LeftOut    uint32   `json:"left_out,omitempty"`
	Recipients []string `json:"recipients"`
}

// MessageOf is n as JSON has it.
func MessageOf(n Notice) Message {
	t := n.Transition
	m := Message{ID: n.ID, EventID: t.EventID().String(), UserID: t.User, State: schemas.StateWord(t.To), PreviousState: schemas.StateWord(t.From),
		Cause: schemas.CauseWord(t.Cause), At: t.At, LastSeenAt: t.LastSeen, LastActiveAt: t.LastActive, Devices: t.Kinds.Words(),
		Version: t.Version.String(), LeftOut: t.LeftOut, Recipients: make([]string, len(n.Recipients))}
	for i, r := range n.Recipients {
		m.Recipients[i] = r.String()
	}
	return m
}
