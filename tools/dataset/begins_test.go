package dataset

import (
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

func TestAChangeIsOfTheInstantItCameAboutAndNotOfItsPublication(t *testing.T) {
	t.Parallel()
	change := schemas.Transition{User: 1, Version: 5, At: 1_763_939_509_864, From: schemas.Offline, To: schemas.Online, Cause: schemas.FirstBeat}
	record := &schemas.Record{Time: change.At + 4, Value: change.Encode()}
	for topic, want := range map[schemas.Topic]schemas.Millis{schemas.Transitions: change.At, schemas.Heartbeats: record.Time} {
		if got := happened(topic, record); got != want {
			t.Errorf("%v: %d, want %d", topic, got, want)
		}
	}
	if got := happened(schemas.Transitions, &schemas.Record{Time: 7, Value: []byte("no change")}); got != 7 {
		t.Errorf("a record that cannot be read is of %d, want 7", got)
	}
}
