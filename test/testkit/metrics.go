//go:build unix

package testkit

import (
	"cmp"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// AllAre waits until all these users are in a state.
func (h *Dev) AllAre(state string, users []schemas.UserID) {
	h.Helper()
	var last map[schemas.UserID]string
	if !Within(10*time.Second, func() bool {
		last = h.States(users...)
		for _, is := range last {
			if is != state {
				return false
			}
		}
		return true
	}) {
		h.Fatalf("not all users are %s: %v", state, last)
	}
}

// Metric is the value of a series without labels.
func (h *Dev) Metric(name string) float64 {
	h.Helper()
	response := must.Get(h.Client.Get("http://" + h.Admin + "/metrics"))(h)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		h.Fatalf("reading the metrics: %s %v", response.Status, err)
	}
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		h.Fatalf("there is no metric %s in\n%s", name, text)
	}
	return must.Get(strconv.ParseFloat(string(found[1]), 64))(h)
}

// prefix is that of the topics.
func (h *Dev) prefix() string { return cmp.Or(h.Prefix, schemas.DefaultPrefix) }

// Reader reads the service's topics.
func (h *Dev) Reader() *kafka.Reader {
	h.Helper()
	reader := kafkatest.Reader(h, kafka.Config{Brokers: []string{h.Broker}, Prefix: h.prefix()})
	return reader
}
