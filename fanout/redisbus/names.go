package redisbus

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/schemas"
)

// numberWidth is the width of the zero-padded numbers before a transition. Every positive int64 fits.
const numberWidth = 19

// The braces are a Redis Cluster hash tag: everything of one user is in one slot.
func (b *Bus) channelName(id schemas.UserID) string { return b.channels + "live:{" + id.String() + "}" }
func (b *Bus) recentName(id schemas.UserID) string  { return b.prefix + "recent:{" + id.String() + "}" }

// userOfChannel reverses channelName.
func (b *Bus) userOfChannel(name string) (schemas.UserID, error) {
	digits := strings.TrimSuffix(strings.TrimPrefix(name, b.channels+"live:{"), "}")
	return schemas.ParseUserID("channel", digits)
}

// padded returns n in numberWidth digits.
func padded(n int64) string { return fmt.Sprintf("%0*d", numberWidth, n) }

// parseMessage reads a message on a channel: since, then the transition.
func parseMessage(text string) (fanout.Change, error) {
	if len(text) < numberWidth {
		return fanout.Change{}, schemas.Invalid("message", "is too short")
	}
	since, err := strconv.ParseInt(text[:numberWidth], 10, 64)
	if err != nil || since < 0 {
		return fanout.Change{}, schemas.Invalid("message", "does not begin with a time")
	}
	t, err := schemas.DecodeTransition([]byte(text[numberWidth:]))
	if err != nil {
		return fanout.Change{}, err
	}
	return fanout.Change{Transition: t, Since: schemas.Millis(since)}, nil
}

// parseRecent reads the value of a recent key: the version, which only the script needs, and then a
// message.
func parseRecent(text string) (fanout.Change, error) {
	if len(text) < numberWidth {
		return fanout.Change{}, schemas.Invalid("recent", "is too short")
	}
	return parseMessage(text[numberWidth:])
}
