//go:build unix

package process_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/test/testkit"
)

// children are the processes whose parent is this one.
func children(parent int) []int {
	var pids []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid …; the name may hold anything.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// signalAll freezes the processes or lets them go on.
func signalAll(pids []int, freeze bool) {
	signal := syscall.SIGCONT
	if freeze {
		signal = syscall.SIGSTOP
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, signal) // it may have ended
	}
}

// full moves the tables to a small file system and fills it up.
func (w *faultyWorld) full() func() {
	where := must.Get(os.MkdirTemp("", "stillhere-small-"))(w)
	if said, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", where).CombinedOutput(); err != nil {
		_ = os.Remove(where)
		w.Logf("a small file system cannot be mounted here, the disk does not fill up: %v: %s", err, said)
		return func() {}
	}
	space := filepath.Join(where, "space")
	owner := must.Get(os.Stat(w.cluster.Socket()))(w)
	id := owner.Sys().(*syscall.Stat_t)
	must.Do(w, os.Mkdir(space, 0o700))
	must.Do(w, os.Chown(space, int(id.Uid), int(id.Gid)))
	conn, do := w.connect()
	do(fmt.Sprintf(`CREATE TABLESPACE small LOCATION '%s'`, space))
	today := "status_changes_p" + time.Now().UTC().Format("20060102")
	// An empty copy of the day, so that all fits.
	do(`BEGIN`)
	do(`ALTER TABLE status_changes DETACH PARTITION ` + today)
	do(`ALTER TABLE ` + today + ` RENAME TO before`)
	do(`ALTER TABLE status_changes_default SET TABLESPACE small`)
	do(`ALTER INDEX status_changes_default_pkey SET TABLESPACE small`)
	do(`COMMIT`)
	free := testkit.Fill(w.T, where)
	return func() {
		free()
		w.Cleanup(func() {
			_ = exec.Command("umount", "-l", where).Run()
			_ = os.Remove(where)
		})
		do(`BEGIN`)
		do(`ALTER TABLE status_changes_default SET TABLESPACE pg_default`)
		do(`ALTER INDEX status_changes_default_pkey SET TABLESPACE pg_default`)
		do(`INSERT INTO status_changes_default SELECT * FROM before`)
		do(`DROP TABLE before`)
		do(`COMMIT`)
		_ = conn.Close(context.Background())
	}
}

func TestTheSinkRepairsWhatAFailoverToAnOlderReplicaHasLost(t *testing.T) {
	path := testkit.Binary(t, "stillhere")
	t.Parallel()
	w := &faultyWorld{sinkWorld: newSinkWorld(t), admin: testkit.FreePort(t)}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	replica := must.Get(w.cluster.Replica(ctx))(t)
	t.Cleanup(func() { must.Do(t, replica.Stop()) })
	w.database = strings.Replace(w.database, "host=", "host="+strings.ReplaceAll(replica.Socket(), "/", "%2F")+"%2C", 1) + "&target_session_attrs=read-write"
	settings := pgstore.Defaults()
	settings.URL = w.database
	must.Do(t, settings.Validate())
	stop := w.begin(path)
	<-time.After(time.Second)
	must.Do(t, replica.Kill()) // it does not hear of what follows
	atKill := w.rows()
	testkit.Until(t, "the sink has written more", 60*time.Second, func() bool { return w.rows() > atKill+500 })
	lost := w.rows()
	must.Do(t, w.cluster.Kill())
	must.Do(t, replica.Launch(ctx))
	must.Do(t, replica.Promote(ctx))
	begun, written := time.Now(), w.written.Load()
	testkit.Until(t, "the replica answers", 30*time.Second, func() bool { return w.rows() >= 0 })
	found := w.rows()
	testkit.Until(t, "everything is there again", 2*time.Minute, func() bool { return w.rows() >= written })
	t.Logf("| Postgres fails over to a replica that lacks about %d rows | %d | %d | – | %.1f s | – |", lost-found, written, w.rows(), time.Since(begun).Seconds())
	if !strings.Contains(w.sink.Err.String(), "the handler lost records that it had applied") {
		t.Error("the sink has not noticed")
	}
	stop()
	w.caughtUp(60 * time.Second)
	w.judge()
	if !w.sink.Running() {
		t.Fatalf("the sink has ended: %s", testkit.Tail(w.sink.Err.String(), 2000))
	}
}
