package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// openOnly names the file that a process started by the test below opens.
const openOnly = "STILLHERE_TEST_OPEN_ONLY"

// openedElsewhere is what such a process does in place of tests.
func openedElsewhere(path string) int {
	config := Defaults()
	config.Path = path
	s, err := Open(context.Background(), config)
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func TestProcessesThatOpenOneNewFileAtOnceMigrateItOnce(t *testing.T) {
	t.Parallel()
	self := must.Get(os.Executable())(t)
	const rounds, processes = 3, 4
	for range rounds {
		path := filepath.Join(t.TempDir(), "new.db")
		faults := make([]error, processes)
		var open sync.WaitGroup
		for i := range processes {
			open.Go(func() {
				command := exec.CommandContext(t.Context(), self)
				command.Env = append(os.Environ(), openOnly+"="+path)
				if said, err := command.CombinedOutput(); err != nil {
					faults[i] = fmt.Errorf("%w: %s", err, said)
				}
			})
		}
		open.Wait()
		must.Do(t, errors.Join(faults...))
	}
}
