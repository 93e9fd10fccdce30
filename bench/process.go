package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// processorTime is what a process has used, 0 where the system does not report it.
func processorTime(pid int) time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	_, text, _ = bytes.Cut(text, []byte(") ")) // the name before it may have blanks
	fields := bytes.Fields(text)
	const user, system, tick = 11, 12, 10 * time.Millisecond
	if len(fields) <= system {
		return 0
	}
	inUser, _ := strconv.Atoi(string(fields[user]))
	inKernel, _ := strconv.Atoi(string(fields[system]))
	return time.Duration(inUser+inKernel) * tick
}

// resident is the memory of a process in bytes; 0 where the system does not report it.
func resident(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, pages float64
	_, _ = fmt.Sscan(string(text), &size, &pages) // then 0
	return pages * float64(os.Getpagesize())
}
