//go:build !linux

package kafka_test

import "errors"

func mountTmpfs(string, int) error { return errors.New("only done on Linux") }

func unmount(string) error { return nil }
