// Command broker is the Kafka stand-in as a process of its own, so that tests can
// kill what talks to it and not it. It prints "ready host:port" and runs until its
// standard input ends, which it does when the test that started it ends.
package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/stillhere/stillhere/internal/standin"
)

func main() {
	dir := flag.String("data-dir", "", "where to keep the data; empty: in memory")
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	kafka, err := standin.StartKafka(standin.KafkaConfig{DataDir: *dir, Log: log})
	if err != nil {
		fmt.Fprintln(os.Stderr, "broker:", err)
		os.Exit(1)
	}
	defer kafka.Close()
	fmt.Println("ready", kafka.Addrs()[0])
	// What comes on the standard input means nothing; that it ends does.
	_, _ = io.Copy(io.Discard, os.Stdin)
}
