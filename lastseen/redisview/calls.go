package redisview

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

const (
	// usersPerScript bounds how long one script blocks Redis.
	usersPerScript = 100
	// scriptsPerBatch bounds the memory of one pipeline.
	scriptsPerBatch = 50
)

// scriptCall is one call of a script that returns a number.
type scriptCall struct {
	keys      []string
	arguments []any
}

// writeUsers writes rows by a script and adds up what it returns; row adds the keys and arguments of a row to a call,
// whose first argument is head. done, if not nil, is called after each batch. It stops at an error.
func writeUsers[R any](ctx context.Context, v *View, script *redis.Script, rows []R, head any,
	row func(*scriptCall, *R), done func([]R) error,
) (written int, err error) {
	perScript := usersPerScript
	if v.cluster {
		perScript = 1 // the keys of a script must lie in one slot
	}
	for len(rows) > 0 {
		batch := rows[:min(perScript*scriptsPerBatch, len(rows))]
		var calls []scriptCall
		for start := 0; start < len(batch); start += perScript {
			some := batch[start:min(start+perScript, len(batch))]
			c := scriptCall{keys: make([]string, 0, 2*len(some)), arguments: append(make([]any, 0, 1+2*len(some)), head)}
			for i := range some {
				row(&c, &some[i])
			}
			calls = append(calls, c)
		}
		n, err := runScripts(ctx, v.client, script, calls)
		if err == nil && done != nil {
			err = done(batch)
		}
		if err != nil {
			return written, err
		}
		written, rows = written+n, rows[len(batch):]
	}
	return written, nil
}

// runScripts runs the calls of a script in one pipeline and adds up what they return. It takes one
// round trip, or two if Redis does not know the script yet.
func runScripts(ctx context.Context, client redis.UniversalClient, script *redis.Script, calls []scriptCall) (int, error) {
	send := func(run func(redis.Scripter, scriptCall) *redis.Cmd) (int, error) {
		sum := 0
		commands, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, c := range calls {
				run(p, c)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		for _, command := range commands {
			n, err := command.(*redis.Cmd).Int()
			if err != nil {
				return sum, err
			}
			sum += n
		}
		return sum, nil
	}
	sum, err := send(func(p redis.Scripter, c scriptCall) *redis.Cmd { return script.EvalSha(ctx, p, c.keys, c.arguments...) })
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		sum, err = send(func(p redis.Scripter, c scriptCall) *redis.Cmd { return script.Eval(ctx, p, c.keys, c.arguments...) })
	}
	return sum, err
}

// getEach reads n keys in one pipeline, each by a command of its own, as a cluster needs it. take gets the value of each
// in order, empty where there is none.
func (v *View) getEach(ctx context.Context, n int, key func(i int) string, take func(i int, value string)) error {
	gets := make([]*redis.StringCmd, n)
	_, err := v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range gets {
			gets[i] = p.Get(ctx, key(i))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for i, get := range gets {
		if err := get.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		take(i, get.Val())
	}
	return nil
}
