//go:build unix

package storm_test

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"
)

// A detector that gets a tenth of a core and little memory is late. The load must
// be over before anybody judges, so only lag may come of it.
func TestNoStarvedDetectorChangesWhatIsCommitted(t *testing.T) {
	if os.Getenv("STILLHERE_STORM_STARVED") == "" {
		t.Skip("takes all of the machine for a minute, which other tests would feel: STILLHERE_STORM_STARVED=6 runs it with so many kills")
	}
	nice, err := exec.LookPath("nice")
	if err != nil {
		t.Skip("there is no nice")
	}
	for _, m := range testkit.Modes() { // one after the other: each takes all of the machine
		t.Run(m.Name, func(t *testing.T) {
			s := newStorm(t, m)
			s.wrap = []string{nice, "-n", "12"}
			s.environment = append([]string{"GOMEMLIMIT=32MiB"}, s.environment...)
			random := s.draw()
			for range half(testkit.Number(t, "STILLHERE_STORM_STARVED", 6)) {
				s.fates = append(s.fates, fate{life: between(random, 2*time.Second, 10*time.Second)})
			}
			for range 2 * runtime.NumCPU() {
				s.hungry = append(s.hungry, testkit.Start(t, "/bin/sh", nil, "-c", "while :; do :; done"))
			}
			s.blow(true)
		})
	}
}
