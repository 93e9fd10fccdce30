package redisview

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogTo sends what all Redis clients of this process would write to standard error to log, at
// level debug. Commands return everything that matters as errors. Call it before the first client
// is made.
func LogTo(log *slog.Logger) { redis.SetLogger(logger{log}) }

type logger struct{ log *slog.Logger }

func (l logger) Printf(ctx context.Context, format string, v ...any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "redis client: "+fmt.Sprintf(format, v...))
	}
}
