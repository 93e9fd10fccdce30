package redistest

import (
	"strconv"
	"strings"
	"testing"
)

// MasterName is what the Sentinels call the server they watch.
const MasterName = "presence"

// Watched is a master with a replica, and the Sentinels that watch them.
type Watched struct {
	Master, Replica *Server
	Sentinels       []*Server
}

// StartWatched starts a master, a replica and a trio of Sentinels. password, if
// not empty, is that of the servers.
func StartWatched(tb testing.TB, password string) *Watched {
	tb.Helper()
	var settings []string
	if password != "" {
		settings = []string{"--requirepass", password, "--masterauth", password}
	}
	w := &Watched{Master: Start(tb, settings...)}
	host, port, _ := strings.Cut(w.Master.Addr, ":")
	w.Replica = Start(tb, append(settings, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")...)
	for range 3 {
		free := freePort(tb)
		config := []string{
			"port " + strconv.Itoa(free), "bind 127.0.0.1", "dir " + tb.TempDir(),
			"sentinel monitor " + MasterName + " " + host + " " + port + " 2",
			"sentinel down-after-milliseconds " + MasterName + " 1000",
			"sentinel failover-timeout " + MasterName + " 5000",
		}
		if password != "" {
			config = append(config, "sentinel auth-pass "+MasterName+" "+password)
		}
		w.Sentinels = append(w.Sentinels, start(tb, free, config, nil))
	}
	until(tb, "the Sentinels know one another and the replica", func() bool {
		for _, s := range w.Sentinels {
			info, err := s.Do("INFO sentinel")
			if err != nil || !strings.Contains(info, "slaves=1,sentinels=3") {
				return false
			}
		}
		return true
	})
	return w
}

// Addrs are those of the Sentinels.
func (w *Watched) Addrs() []string {
	var all []string
	for _, s := range w.Sentinels {
		all = append(all, s.Addr)
	}
	return all
}
