package redisview

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogTo has all Redis clients of this process, those of other packages too, tell log,
// at level debug, what they would write to standard error on their own. What matters of
// it comes back as errors of commands. It is called before the first client is made.
func LogTo(log *slog.Logger) { redis.SetLogger(logger{log}) }

type logger struct{ log *slog.Logger }

// Printf is called by the client.
func (l logger) Printf(ctx context.Context, format string, v ...any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "redis client: "+fmt.Sprintf(format, v...))
	}
}
