package embedded

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pipe"
)

func TestKeysExpireWithTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := must.Get(StartRedis(RedisConfig{}))(t)
		defer r.Close()
		c := redis.NewClient(&redis.Options{Addr: r.Addr(), Dialer: pipe.DialRedis(r.Server())})
		defer c.Close()
		must.Do(t, c.Set(t.Context(), "key", "value", 10*time.Second).Err())
		time.Sleep(9 * time.Second)
		if got := c.Get(t.Context(), "key").Val(); got != "value" {
			t.Errorf("after 9 s the key is %q", got)
		}
		time.Sleep(2500 * time.Millisecond)
		if err := c.Get(t.Context(), "key").Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("after 11.5 s the key is still there (%v)", err)
		}
	})
}
