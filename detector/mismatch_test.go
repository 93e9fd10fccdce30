package detector

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// namesakes are pairs of names that have one id under the key of named: of one tenant, and of two.
var namesakes = [][2]schemas.Name{
	{{Tenant: "globex", Text: "365650a50ece8463"}, {Tenant: "globex", Text: "2900f707983a2ec5"}},
	{{Tenant: "globex", Text: "1a21c3b87d4ca93b"}, {Tenant: "acme", Text: "0146e575611aec18"}},
}

func idOf(n schemas.Name) schemas.UserID { return named.ID(n.Tenant, n.Text) }

func visibility(n schemas.Name, v schemas.Visibility) []byte {
	return schemas.AppendNamedVisibility(nil, idOf(n), v, n)
}

func byeOf(n schemas.Name, device schemas.DeviceID) []byte {
	return schemas.AppendNamedRow(schemas.AppendFrame(nil, schemas.FrameHead{},
		[]schemas.Beat{{User: idOf(n), Device: device, Kind: schemas.Web, Bye: true}}), 0, n)
}

// seconds are ways in which the second of two names comes.
var seconds = map[string]func(schemas.Name) []byte{
	"beats":     func(n schemas.Name) []byte { return namedBeat(n, 2) },
	"says bye":  func(n schemas.Name) []byte { return byeOf(n, 1) },
	"hides":     func(n schemas.Name) []byte { return visibility(n, schemas.Nobody) },
	"shows":     func(n schemas.Name) []byte { return visibility(n, schemas.Everyone) },
	"is erased": func(n schemas.Name) []byte { return schemas.AppendErasure(nil, idOf(n), n, start+1_000_000, 0, false) },
}

// leftOut fails unless the record written last had no effect, and was a dead letter for one reason.
func (l *log) leftOut(letters float64) {
	l.t.Helper()
	var why *schemas.FieldError
	switch out := l.out; {
	case len(out.Records) != 0 || len(out.Forwards) != 0:
		l.t.Errorf("written %v, forwarded %v", out.Records, out.Forwards)
	case len(out.Rejected) != 1 || !errors.As(out.Rejected[0].Reason, &why) || why.Code != "name_mismatch":
		l.t.Errorf("rejected %v", out.Rejected)
	}
	if n := testutil.ToFloat64(l.p.config.Metrics.Mismatched); n != letters {
		l.t.Errorf("%v mismatches are counted, want %v", n, letters)
	}
}

func TestASecondNameOfAnIDChangesNothingForTheFirst(t *testing.T) {
	for _, pair := range namesakes {
		ann, bob := pair[0], pair[1]
		if idOf(ann) != idOf(bob) {
			t.Fatalf("%v and %v do not have one id", ann, bob)
		}
		for way, comes := range seconds {
			for _, restarts := range []bool{false, true} {
				for _, hidden := range []bool{false, true} {
					l := namedLog(t, 0, 1)
					restart := func() {
						if restarts {
							l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
						}
					}
					l.write(start, namedBeat(ann, 1))
					if hidden {
						l.write(start+1, visibility(ann, schemas.Nobody))
					}
					restart()
					for i := range 3 {
						l.write(start+1000+schemas.Millis(i), comes(bob))
						letters := i + 1
						if restarts {
							letters = 1 // the restarted process counts anew
						}
						if l.leftOut(float64(letters)); t.Failed() {
							t.Fatalf("%v, then %v %s (hidden: %t)", ann, bob, way, hidden)
						}
						restart()
					}
					l.write(start+1500, byeOf(ann, 1))
					for now := start + 2000; len(l.transitions()) == 0 && now < start+60_000; now += 1000 {
						l.write(now, schemas.AppendTick(nil))
					}
					want := schemas.Everyone
					if hidden {
						want = schemas.Nobody
					}
					if all := l.transitions(); len(all) != 1 || all[0].Name != ann || all[0].To != schemas.Offline || all[0].Visibility != want {
						t.Fatalf("%v, then %v %s: the first leaves by %+v", ann, bob, way, all)
					}
				}
			}
		}
	}
}

// The second name comes among rows of others, which count.
func TestOtherRowsOfTheFrameCount(t *testing.T) {
	for _, pair := range namesakes {
		l := namedLog(t, 0, 1)
		ann, bob, eve := pair[0], pair[1], schemas.Name{Text: "eve"}
		frame := schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: idOf(ann), Device: 1, Kind: schemas.Web},
			{User: idOf(bob), Device: 2, Kind: schemas.Mobile}, {User: idOf(eve), Device: 3, Kind: schemas.Web}})
		for i, n := range []schemas.Name{ann, bob, eve} {
			frame = schemas.AppendNamedRow(frame, i, n)
		}
		l.write(start, frame)
		both := []schemas.Name{ann, eve}
		l.expect(both, both, both)
		for _, tr := range l.transitions() {
			if tr.Kinds.With(schemas.Mobile) == tr.Kinds {
				t.Errorf("the row of the second name counts: %+v", tr)
			}
		}
		if len(l.out.Rejected) != 1 {
			t.Errorf("rejected %v", l.out.Rejected)
		}
	}
}

// A restart re-reads a record with the second name, but not the one that brought the first.
func TestARestartThatReReadsTheSecondNameAloneLeavesItOut(t *testing.T) {
	for _, pair := range namesakes {
		l := namedLog(t, 0, 1)
		ann, bob := pair[0], pair[1]
		at := start
		l.write(at, namedBeat(ann, 1))
		for range 200 { // until the first beat is not re-read any more
			at += 4000
			l.write(at, beatOf(ann, 1))
		}
		l.write(at+1, namedBeat(bob, 2))
		l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
		l.write(at+2, byeOf(ann, 1))
		if left := l.transitions(); len(left) != 1 || left[0].Name != ann || left[0].To != schemas.Offline {
			t.Errorf("%v: after the restart the first leaves by %+v", ann, left)
		}
		l.write(at+3, namedBeat(bob, 2))
		if len(l.out.Rejected) != 1 {
			t.Error("the second name counts after the restart")
		}
	}
}

func TestTheSecondNameTakesTheIDWhenTheFirstIsForgottenOrErased(t *testing.T) {
	for _, pair := range namesakes {
		for _, erased := range []bool{false, true} {
			l := namedLog(t, 0, 1)
			ann, bob := pair[0], pair[1]
			l.write(start, namedBeat(ann, 1))
			at := start + 1000
			if erased {
				l.write(at, schemas.AppendErasure(nil, idOf(ann), ann, start+2_000_000, 0, false))
			} else {
				l.write(at, byeOf(ann, 1))
				for at < start+nameKept+60_000 {
					at += 4000
					l.write(at, schemas.AppendTick(nil))
				}
			}
			// The second user hides with its second record. No other record shows it.
			l.write(at+1, namedBeat(bob, 2))
			if all := l.transitions(); len(all) != 1 || all[0].Name != bob || all[0].To != schemas.Online {
				t.Fatalf("the second comes by %+v", all)
			}
			l.write(at+2, visibility(bob, schemas.Nobody))
			for i, value := range [][]byte{namedBeat(bob, 2), beatOf(bob, 2), namedBeat(ann, 1), visibility(ann, schemas.Everyone), byeOf(ann, 2)} {
				l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
				l.out = stream.Outbox{}
				if l.write(at+3+schemas.Millis(i), value); len(l.transitions()) != 0 {
					t.Errorf("erased: %t; record %d shows %+v", erased, i, l.transitions())
				}
			}
		}
	}
}

// twoNames is a frame of rows of two names of an id, and of one that says no name.
func twoNames(first, second schemas.Name) []byte {
	frame := schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: idOf(first), Device: 1, Kind: schemas.Web},
		{User: idOf(second), Device: 2, Kind: schemas.Mobile}, {User: idOf(second), Device: 3, Kind: schemas.Desktop}})
	return schemas.AppendNamedRow(schemas.AppendNamedRow(frame, 0, first), 1, second)
}

func TestRowsWithoutANameGoWithTheSecondNameOfTheirFrame(t *testing.T) {
	for _, pair := range namesakes {
		l := namedLog(t, 0, 1)
		l.write(start, twoNames(pair[0], pair[1]))
		if all := l.transitions(); len(all) != 1 || all[0].Name != pair[0] || all[0].Kinds != schemas.SetOfKinds(schemas.Web).As(schemas.Online) {
			t.Errorf("%v: published %+v", pair, all)
		}
		if len(l.out.Rejected) != 1 {
			t.Errorf("rejected %v", l.out.Rejected)
		}
	}
}

func TestForwardedRowsOfTwoNamesWithOneIDKeepTheirs(t *testing.T) {
	for _, pair := range namesakes {
		to := schemas.PartitionOf(idOf(pair[0]), 2)
		l := namedLog(t, 1-to, 2)
		l.write(start, twoNames(pair[0], pair[1]))
		if len(l.out.Forwards) != 1 {
			t.Fatalf("forwarded %v", l.out.Forwards)
		}
		var f schemas.Frame
		if err := f.Decode(l.out.Forwards[0].Value); err != nil || l.out.Forwards[0].Partition != to || f.Rows() != 3 {
			t.Fatalf("forwarded %v to %d, want all three rows in %d", err, l.out.Forwards[0].Partition, to)
		}
		called := map[int]schemas.Name{}
		var row schemas.NamedRow
		for names := f.Names(); names.Next(&row); {
			called[row.Row] = row.User()
		}
		if len(called) != 2 || called[0] != pair[0] || called[1] != pair[1] {
			t.Errorf("the rows are called %v", called)
		}
	}
}
