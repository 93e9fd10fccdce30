package console

import (
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/origin"
	"github.com/stillhere/stillhere/lastseen/redisview"
)

func TestADetectorWithoutRedisHasAVersionAndIsReadyIfItsPartitionsAre(t *testing.T) {
	t.Parallel()
	group := admin.Group{GroupInput: admin.GroupInput{Group: origin.DetectorGroup}, Members: []admin.GroupMember{{Instance: "a", Version: "1.2.3"}, {Instance: "b", Version: "1.2.4"}}}
	a, b, behind := "a", "b", 60.0
	o := &Overview{Partitions: []Partition{{Owner: &a, Phase: "assigned"}, {Partition: 1, Owner: &b, Phase: "assigned", LagSeconds: &behind}}}
	o.Instances = instancesOf(nil, []admin.Group{group}, o.Partitions)
	if len(o.Instances) != 2 || o.Instances[0].Version == nil || *o.Instances[0].Version != "1.2.3" || o.Instances[0].Ready == nil || !*o.Instances[0].Ready {
		t.Errorf("instances are %+v", o.Instances)
	}
	for _, want := range []string{"partition 1 is 60.0 s behind", "detector b is not ready", "processes are of different versions: 1.2.3, 1.2.4"} {
		if all := ProblemsOf(o); !slices.Contains(all, want) {
			t.Errorf("there is no %q in %q", want, all)
		}
	}
}

func TestAProcessWhoseStoreAwaitsALogEpochIsAProblem(t *testing.T) {
	t.Parallel()
	o := &Overview{Instances: instancesOf([]redisview.Process{{Role: "lastseen", Instance: "a", Ready: true,
		Totals: map[string]float64{redisview.LogEpochAwaited: 7}}}, nil, nil)}
	if all := ProblemsOf(o); len(all) != 1 || !strings.Contains(all[0], "--min-log-epoch 7") {
		t.Errorf("problems are %q", all)
	}
}

func TestAStampTellsTheVersion(t *testing.T) {
	t.Parallel()
	if s := kafka.StampOf([]byte("of the balancer\x051.2.3")); s != (kafka.ProcessStamp{}) {
		t.Errorf("user data without a stamp has %+v", s)
	}
	data := append([]byte("of the balancer1.2.3\x05stillher"), 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7)
	if s := kafka.StampOf(data); s != (kafka.ProcessStamp{Started: 1, ID: 7, Version: "1.2.3"}) {
		t.Errorf("the stamp is %+v", s)
	}
}
