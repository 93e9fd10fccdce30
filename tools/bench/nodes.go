package bench

import (
	"context"
	"fmt"
	"os"
)

// nodes are processes that serve viewers.
type nodes struct {
	tools []*tool
	doors []string
	fault error
}

// nodes starts some and waits until they are ready; fault says why they are not.
func (r *rig) nodes(ctx context.Context, at place, n int) *nodes {
	all := &nodes{}
	for i := range n {
		door, err := freeAddress()
		if err != nil {
			all.fault = err
			return all
		}
		t, err := startTool(ctx, r.o, "node", site{Kafka: r.kafka.Brokers, TopicPrefix: r.kafka.Prefix, Redis: r.redis, SQLite: at.sqlite,
			Instance: fmt.Sprintf("bench-%d", i), Listen: door})
		if err != nil {
			all.fault = err
			return all
		}
		all.tools, all.doors = append(all.tools, t), append(all.doors, door)
	}
	for _, t := range all.tools {
		var ready told
		if err := t.hear(&ready); err != nil {
			all.fault = err
			return all
		}
	}
	return all
}

// resident is the memory of all nodes in bytes; 0 where the system does not tell.
func (n *nodes) resident() float64 {
	var sum float64
	for _, t := range n.tools {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", t.command.Process.Pid))
		if err != nil {
			return 0
		}
		var size, pages float64
		if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
			return 0
		}
		sum += pages * float64(os.Getpagesize())
	}
	return sum
}

func (n *nodes) close() error { return closeTools(n.tools) }
