package loadtest

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine is what it was measured on.
type Machine struct {
	CPU      string  `json:"cpu"`
	Cores    int     `json:"cores"` // that Go may use
	MemoryGB float64 `json:"memory_gb,omitempty"`
	System   string  `json:"system"`
	Go       string  `json:"go"`
}

// lookAtMachine reads what the system reports; other systems than Linux report less.
func lookAtMachine() Machine {
	m := Machine{CPU: runtime.GOARCH, Cores: runtime.GOMAXPROCS(0), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		m.CPU = model
	}
	var kilobytes float64
	if _, err := fmt.Sscan(field("/proc/meminfo", "MemTotal"), &kilobytes); err == nil {
		m.MemoryGB = kilobytes / (1 << 20)
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.System += " " + strings.TrimSpace(string(release))
	}
	return m
}

// field is the value of the first line "name: value" of a file, empty if there is
// none.
func field(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// loadAverage is that of the last minute; 0 where it is not known.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	var load float64
	_, _ = fmt.Sscan(string(text), &load)
	return load
}
