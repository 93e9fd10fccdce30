package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const slots = 16384

// Cluster is a Redis Cluster of masters.
type Cluster struct{ Nodes []*Server }

// StartCluster starts masters that share the slots evenly, with more settings for
// each.
func StartCluster(tb testing.TB, masters int, settings ...string) *Cluster {
	tb.Helper()
	c := &Cluster{}
	for range masters {
		c.Nodes = append(c.Nodes, Start(tb, append([]string{
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(freePort(tb)), "--cluster-node-timeout", "2000", "--cluster-allow-replica-migration", "no",
		}, settings...)...))
	}
	for i, node := range c.Nodes {
		node.must("CLUSTER SET-CONFIG-EPOCH %d", i+1)
		node.must("CLUSTER ADDSLOTSRANGE %d %d", i*slots/masters, (i+1)*slots/masters-1)
	}
	for _, node := range c.Nodes[1:] {
		host, port, _ := strings.Cut(node.Addr, ":")
		c.Nodes[0].must("CLUSTER MEET %s %s %s", host, port, busPort(node))
	}
	until(tb, "the cluster is complete", func() bool {
		for _, node := range c.Nodes {
			info, err := node.Do("CLUSTER INFO")
			if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", masters)) {
				return false
			}
		}
		return true
	})
	c.agree()
	return c
}

// busPort reads it from the node's own line: ID host:port@bus ...
func busPort(s *Server) string {
	for line := range strings.Lines(s.must("CLUSTER NODES")) {
		if strings.Contains(line, "myself") {
			_, after, _ := strings.Cut(line, "@")
			return after[:strings.IndexAny(after, " ,")]
		}
	}
	s.tb.Fatal("a node does not know itself")
	return ""
}

// Addrs are those of all nodes.
func (c *Cluster) Addrs() []string {
	var all []string
	for _, node := range c.Nodes {
		all = append(all, node.Addr)
	}
	return all
}

// Owner is the node that has the key's slot.
func (c *Cluster) Owner(key string) *Server {
	for _, node := range c.Nodes {
		if _, err := node.Do("EXISTS %s", key); err == nil {
			return node
		}
	}
	c.Nodes[0].tb.Fatalf("nobody has %s", key)
	return nil
}

// Move gives the slot of key, with all that is in it, to another node, and returns
// when all nodes know. A node that took a slot over before it had heard of the others'
// epochs would claim it with one that is too old: then nobody owns the slot, for good.
func (c *Cluster) Move(key string, to *Server) {
	slot, id := c.Nodes[0].must("CLUSTER KEYSLOT %s", key), to.must("CLUSTER MYID")
	from := c.Owner(key)
	to.must("CLUSTER SETSLOT %s IMPORTING %s", slot, from.must("CLUSTER MYID"))
	from.must("CLUSTER SETSLOT %s MIGRATING %s", slot, id)
	host, port, _ := strings.Cut(to.Addr, ":")
	for _, held := range strings.Fields(from.must("CLUSTER GETKEYSINSLOT %s 1000", slot)) {
		from.must("MIGRATE %s %s %s 0 5000", host, port, held)
	}
	for _, node := range append([]*Server{to, from}, c.Nodes...) {
		node.must("CLUSTER SETSLOT %s NODE %s", slot, id)
	}
	c.agree()
}

// agree waits until every node has the same view of slots and epochs.
func (c *Cluster) agree() {
	c.Nodes[0].tb.Helper()
	until(c.Nodes[0].tb, "the nodes of the cluster agree", func() bool { return len(slices.Compact(c.views())) == 1 })
}

// views is for each node which slots it holds whose, and since which epoch.
func (c *Cluster) views() []string {
	views := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		var lines []string
		for line := range strings.Lines(node.must("CLUSTER NODES")) {
			// ID host:port@bus flags master ping pong epoch link slots...
			fields := strings.Fields(line)
			const epoch, link = 6, 7
			if len(fields) > link {
				lines = append(lines, strings.Join(slices.Concat(fields[:1], fields[epoch:link], fields[link+1:]), " "))
			}
		}
		slices.Sort(lines)
		views[i] = strings.Join(lines, "\n")
	}
	return views
}
