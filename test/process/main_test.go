//go:build unix

package process_test

import (
	"testing"

	"github.com/stillhere/stillhere/test/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
