package main

import (
	"net"
	"os/exec"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/tools/loadtest"
)

// redisServer is the Redis of a bench.
type redisServer struct {
	what string
	pid  int // 0: the stand-in
}

// startRedis replaces the stand-in of a rig by a redis-server, where one is installed.
func startRedis(t *loadtest.T, rig *loadtest.Rig) redisServer {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return redisServer{what: "The Redis stand-in"}
	}
	address := t.FreeAddress()
	_, port, err := net.SplitHostPort(address)
	t.Check(err)
	command := exec.CommandContext(t.Context(), path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	t.Check(command.Start())
	t.Cleanup(func() error {
		_ = command.Wait() // reports the kill
		return nil
	})
	t.Cleanup(command.Process.Kill)
	client := redis.NewClient(&redis.Options{Addr: address})
	t.Until(func() string { return "waiting for redis-server" }, func() bool { return client.Ping(t.Context()).Err() == nil })
	t.Check(client.Close())
	rig.Redis = address
	return redisServer{what: "A redis-server", pid: command.Process.Pid}
}
