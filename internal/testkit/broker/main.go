// Command broker is the Kafka stand-in as a process of its own, so that tests can
// kill what talks to it and not it. It prints "ready host:port" and runs until its
// standard input ends, which it does when the test that started it ends. The line
// "calm" there ends the errors that -errors asked for; it is answered with
// "calm" and their number.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/stillhere/stillhere/internal/embedded"
)

func main() {
	dir := flag.String("data-dir", "", "where to keep the data; empty: in memory")
	oneIn := flag.Int("errors", 0, "answer one in so many requests that write with each of the errors there are; 0: none")
	seed := flag.Uint64("seed", 1, "which of them")
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	kafka, err := embedded.StartKafka(embedded.KafkaConfig{DataDir: *dir, Log: log})
	if err != nil {
		fmt.Fprintln(os.Stderr, "broker:", err)
		os.Exit(1)
	}
	defer kafka.Close()
	var errors *embedded.Errors
	if *oneIn > 0 {
		errors = kafka.ErrorsAtRandom(*seed, *oneIn)
	}
	fmt.Println("ready", kafka.Addrs()[0])
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "calm" && errors != nil {
			errors.Stop()
			fmt.Println("calm", errors.Count())
		}
	}
}
