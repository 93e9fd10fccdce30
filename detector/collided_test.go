//go:build stillhere_weak_ids

package detector

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stillhere/stillhere/schemas"
)

// namesakes are two names with one id.
func namesakes(t *testing.T) (ann, bob schemas.Name, id schemas.UserID) {
	t.Helper()
	met := map[schemas.UserID]schemas.Name{}
	for i := range 1 << 20 {
		n := schemas.Name{Tenant: []string{"acme", "globex"}[i%2], Text: fmt.Sprint("user ", i)}
		id := named.ID(n.Tenant, n.Text)
		if other, found := met[id]; found && other.Tenant != n.Tenant {
			return other, n, id
		}
		met[id] = n
	}
	t.Fatal("no two names have one id")
	return
}

// noneShown fails if a record that l wrote last shows somebody, or names the second of two users.
func (l *log) noneShown(second schemas.Name) {
	l.t.Helper()
	for _, o := range l.out.Records {
		switch o.Topic {
		case schemas.Transitions:
			if tr, err := schemas.DecodeTransition(o.Value); err != nil || tr.Visibility != schemas.Nobody || tr.Name == second {
				l.t.Errorf("published %+v, %v", tr, err)
			}
		case schemas.Statuses:
			if s, err := schemas.DecodeStatus(o.Value); err != nil || s.Visibility != schemas.Nobody || s.Name == second || !s.Collided {
				l.t.Errorf("stated %+v, %v", s, err)
			}
		}
	}
}

func (l *log) wantCollided(users float64) {
	l.t.Helper()
	if n := testutil.ToFloat64(l.p.config.Metrics.Collided); n != users {
		l.t.Errorf("%v users are collided, want %v", n, users)
	}
}

// first are ways in which the first of two names comes.
var first = map[string]func(l *log, n schemas.Name){
	"online": func(l *log, n schemas.Name) { l.write(start, namedBeat(n, 1)) },
	"hidden": func(l *log, n schemas.Name) {
		l.write(start, schemas.AppendNamedVisibility(nil, named.ID(n.Tenant, n.Text), schemas.Nobody, n))
	},
	"nowhere": func(*log, schemas.Name) {},
	"restored": func(l *log, n schemas.Name) {
		l.write(start, namedBeat(n, 1))
		l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
	},
}

// second are ways in which the other one comes, or both in one record.
var second = map[string]func(ann, bob schemas.Name) []byte{
	"beats": func(_, bob schemas.Name) []byte { return namedBeat(bob, 2) },
	"leaves": func(_, bob schemas.Name) []byte {
		id := named.ID(bob.Tenant, bob.Text)
		return schemas.AppendNamedRow(schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: id, Device: 1, Kind: schemas.Web, Bye: true}}), 0, bob)
	},
	"shows": func(_, bob schemas.Name) []byte {
		return schemas.AppendNamedVisibility(nil, named.ID(bob.Tenant, bob.Text), schemas.Everyone, bob)
	},
	"beats in one record": func(ann, bob schemas.Name) []byte {
		id := named.ID(bob.Tenant, bob.Text)
		frame := schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: id, Device: 1, Kind: schemas.Web}, {User: id, Device: 2, Kind: schemas.Web}})
		return schemas.AppendNamedRow(schemas.AppendNamedRow(frame, 0, ann), 1, bob)
	},
}

func TestTwoNamesWithOneIDAreHiddenUntilTheErasure(t *testing.T) {
	ann, bob, id := namesakes(t)
	for before, come := range first {
		for then, join := range second {
			t.Run(before+", then "+then, func(t *testing.T) {
				l := namedLog(t, 0, 1)
				come(l, ann)
				l.write(start+1000, join(ann, bob))
				if before == "nowhere" && then != "beats in one record" {
					l.wantCollided(0)
					return
				}
				l.wantCollided(1)
				var found []schemas.UserName
				for _, o := range l.out.Records {
					if n, err := schemas.DecodeUserName(o.Value); o.Topic == schemas.Names && err == nil && n.Collided {
						found = append(found, n)
					}
				}
				if len(found) != 1 || found[0].Name != ann || found[0].Other != bob {
					t.Errorf("the topic of names says %v", found)
				}
				l.noneShown(bob)
				hide := l.out.Forwards
				if len(hide) != 1 {
					t.Fatalf("%d forwards", len(hide))
				}
				for i, value := range [][]byte{hide[0].Value, namedBeat(ann, 1), namedBeat(bob, 2),
					schemas.AppendNamedVisibility(nil, id, schemas.Everyone, bob), schemas.AppendNamedVisibility(nil, id, schemas.Everyone, ann),
					schemas.AppendVisibility(nil, id, schemas.Everyone), beatOf(ann, 3)} {
					if i%2 == 0 {
						l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
						l.wantCollided(1)
					}
					l.write(start+2000+schemas.Millis(i), value)
					l.noneShown(bob)
					if len(l.out.Forwards) != 0 {
						t.Error("the collision is reported again")
					}
				}
				for now := start + 10_000; now < start+300_000; now += 5000 {
					l.write(now, schemas.AppendTick(nil))
					l.noneShown(bob)
				}
				l.write(start+300_000, schemas.AppendErasure(nil, id, start+1_000_000, start+500_000, false))
				l.wantCollided(0)
				hide = l.out.Forwards
				// Until a name comes, nobody knows whose beats these are.
				for i, value := range [][]byte{beatOf(ann, 1), hide[0].Value, beatOf(ann, 3), schemas.AppendVisibility(nil, id, schemas.Everyone)} {
					l.write(start+300_001+schemas.Millis(i), value)
					for _, tr := range l.transitions() {
						if tr.Visibility != schemas.Nobody {
							t.Errorf("before a name came %+v", tr)
						}
					}
					if i%2 == 1 {
						l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
					}
				}
				l.write(start+300_010, namedBeat(bob, 2))
				l.write(start+300_011, l.out.Forwards[0].Value)
				if all := l.transitions(); len(all) != 1 || all[0].Visibility != schemas.Everyone || all[0].Name != bob || all[0].To != schemas.Online {
					t.Errorf("after an erasure %v", all)
				}
				l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
				l.wantCollided(0)
				l.write(start+300_020, namedBeat(ann, 1))
				l.wantCollided(1)
				l.noneShown(ann)
			})
		}
	}
}
