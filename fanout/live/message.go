package live

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// errorBody is the same as in the answers of the HTTP doors.
type errorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`
	UserID  string `json:"user_id,omitempty"` // not_allowed: whom
}

func bodyOf(err error) errorBody {
	var bad *schemas.FieldError
	if errors.As(err, &bad) {
		return errorBody{Code: bad.Code, Message: bad.Error(), Field: bad.Field}
	}
	return errorBody{Code: "internal", Message: "internal error"}
}

func helloMessage(heartbeat time.Duration, maxSubscriptions int) []byte {
	return mustEncode(struct {
		Type             string `json:"type"`
		Heartbeat        int64  `json:"heartbeat_interval_ms"`
		MaxSubscriptions int    `json:"max_subscriptions"`
	}{"hello", heartbeat.Milliseconds(), maxSubscriptions})
}

func errorMessage(err error) []byte {
	return mustEncode(struct {
		Type  string    `json:"type"`
		Error errorBody `json:"error"`
	}{"error", bodyOf(err)})
}

// notAllowedMessage says of user what it would say of any other.
func notAllowedMessage(user schemas.UserID) []byte {
	return mustEncode(struct {
		Type  string    `json:"type"`
		Error errorBody `json:"error"`
	}{"error", errorBody{Code: "not_allowed", Message: "you may not watch this user", Field: "user_ids", UserID: user.String()}})
}

func reconnectMessage(after time.Duration) []byte {
	return mustEncode(struct {
		Type  string `json:"type"`
		After int64  `json:"after_ms"`
	}{"reconnect", after.Milliseconds()})
}

func collapsedMessage(count int) []byte {
	return []byte(`{"type":"collapsed","count":` + strconv.Itoa(count) + `}`)
}

// Changes are written once and shared by all viewers of the user.
const (
	changeHead = `{"type":"change","user":`
	changeTail = `}`

	deliveryHead = `{"type":"delivery","user":`
)

func deliveriesMessage(enabled bool) []byte {
	return []byte(`{"type":"deliveries","enabled":` + strconv.FormatBool(enabled) + `}`)
}

// usersMessage is a snapshot or a resync.
func usersMessage(kind string, users []*state) []byte {
	size := len(`{"type":"","users":[]}`) + len(kind)
	for _, u := range users {
		size += len(u.user()) + 1
	}
	out := append(make([]byte, 0, size), `{"type":"`+kind+`","users":[`...)
	for i, u := range users {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, u.user()...)
	}
	return append(out, "]}"...)
}

// mustEncode cannot fail on the types of this package.
func mustEncode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
