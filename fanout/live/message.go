package live

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// errorBody is the error of HTTP answers and of error messages.
type errorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`
	UserID  string `json:"user_id,omitempty"` // not_allowed: whom
	Tenant  string `json:"tenant,omitempty"`
}

func bodyOf(err error) errorBody {
	var bad *schemas.FieldError
	if errors.As(err, &bad) {
		return errorBody{Code: bad.Code, Message: bad.Error(), Field: bad.Field}
	}
	return errorBody{Code: "internal", Message: "internal error"}
}

func errorMessage(body errorBody) []byte {
	return mustEncode(struct {
		Type  string    `json:"type"`
		Error errorBody `json:"error"`
	}{"error", body})
}

// notAllowed is the same for users who are online, hidden or unknown. name is nil if it is the number.
func notAllowed(user schemas.UserID, name *schemas.Name) errorBody {
	body := errorBody{Code: "not_allowed", Message: "you may not watch this user", Field: "user_ids", UserID: user.String()}
	if name != nil {
		body.UserID, body.Tenant = name.Text, name.Tenant
	}
	return body
}

func reconnectMessage(after time.Duration) []byte {
	return []byte(`{"type":"reconnect","after_ms":` + strconv.FormatInt(after.Milliseconds(), 10) + `}`)
}

func collapsedMessage(count int) []byte {
	return []byte(`{"type":"collapsed","count":` + strconv.Itoa(count) + `}`)
}

func deliveriesMessage(enabled bool) []byte {
	return []byte(`{"type":"deliveries","enabled":` + strconv.FormatBool(enabled) + `}`)
}

// A change is encoded once; all viewers of the user share it.
const (
	changeHead = `{"type":"change","user":`
	changeTail = `}`

	deliveryHead = `{"type":"delivery","user":`
)

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
