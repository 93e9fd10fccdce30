package schemas

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestPartitionsAreThoseOfKafkasJavaClient(t *testing.T) {
	t.Parallel()
	file, err := os.Open("testdata/murmur2.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	vectors := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var user UserID
		var hash, of4, of12, of64, of1000 int32
		if _, err := fmt.Sscan(lines.Text(), &user, &hash, &of4, &of12, &of64, &of1000); err != nil {
			t.Fatal(err)
		}
		vectors++
		if got := int32(murmur2(uint64(user))); got != hash {
			t.Errorf("murmur2 of user %d is %d, want %d", user, got, hash)
		}
		for partitions, want := range map[int32]int32{4: of4, 12: of12, 64: of64, 1000: of1000, 1: 0} {
			if got := PartitionOf(user, partitions); got != want {
				t.Errorf("user %d is in partition %d of %d, want %d", user, got, partitions, want)
			}
		}
	}
	if vectors < 30 {
		t.Fatalf("only %d vectors were read", vectors)
	}
}
