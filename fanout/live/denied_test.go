package live

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/cursor"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

func TestADeniedViewerSeesAHiddenUserFromTheSubscribeOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStar(t)
		s.denies(true, 2)
		two, three, nobody := s.watchedBy(2), s.watchedBy(3), s.watchedBy(0)
		admin := s.fan(2)
		admin.exempt = true
		admin.submit(request{kind: subscribe, ids: []schemas.UserID{theStar}})
		two.got("snapshot null 20")
		for range 100 {
			s.becomes(schemas.Away)
		}
		two.got()
		for _, f := range []*fan{three, nobody, admin} {
			synctest.Wait()
			if n := len(f.sent); n != 101 {
				t.Errorf("viewer %d got %d messages", f.who, n)
			}
		}
	})
}

func TestADenyClearsOnceAndOnlyTheDeniedViewerAndAnAllowShowsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStar(t)
		two, three, nobody := s.watchedBy(2), s.watchedBy(3), s.watchedBy(0)
		for _, f := range []*fan{two, three, nobody} {
			f.got("snapshot online 10")
		}
		s.denies(true, 2)
		two.got("change null 20")
		for range 100 {
			s.becomes(schemas.Away)
		}
		s.denies(true, 4)
		two.got()
		synctest.Wait()
		for _, f := range []*fan{three, nobody} {
			if n := len(f.sent); n != 100 || f.sent[99].User.Version != "1020" {
				t.Errorf("viewer %d got %d messages", f.who, n)
			}
			f.sent = nil
		}
		s.denies(false, 2)
		two.got("change away 1040")
		s.becomes(schemas.Online)
		for _, f := range []*fan{two, three, nobody} {
			f.got("change online 1050") // and nothing of the lists
		}
	})
}

func TestNothingIsShownWhileTheListIsBehindOrCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, err := range []error{shown.ErrBehind, errors.New("both stores are away")} {
		synctest.Test(t, func(t *testing.T) {
			s := newStar(t)
			two, three, nobody := s.watchedBy(2), s.watchedBy(3), s.watchedBy(0)
			two.got("snapshot online 10")
			three.got("snapshot online 10")
			nobody.got("snapshot online 10")
			s.err = err
			s.denies(true, 2)
			s.becomes(schemas.Away)
			late, late3 := s.watchedBy(2), s.watchedBy(3)
			time.Sleep(3 * time.Second)
			two.got()
			three.got()
			nobody.got("change away 30")
			late.got("snapshot null stale 0")
			late3.got("snapshot null stale 0")
			s.mu.Lock()
			if s.asked < 25 || s.asked > 45 {
				t.Errorf("the list was read %d times in 3 s", s.asked)
			}
			s.err = nil
			s.mu.Unlock()
			time.Sleep(listRetry)
			two.got("change null 20")
			three.got("resync away 30")
			late.got("resync null 20")
			late3.got("resync away 30")
			s.becomes(schemas.Online)
			two.got()
			late.got()
			three.got("change online 40")
			late3.got("change online 40")
		})
	}
}

func TestADenyThatComesBetweenReadAndSettleIsHeeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStar(t)
		once := sync.OnceFunc(func() {
			s.denies(true, 2)
			s.becomes(schemas.Away)
		})
		s.h.reader.view = func(ctx context.Context, ids []schemas.UserID, names []schemas.Name) ([]schemas.Presence, error) {
			users, err := s.view(ctx, ids, names)
			once()
			return users, err
		}
		two := s.watchedBy(2)
		synctest.Wait()
		last := two.sent[len(two.sent)-1].Users[0]
		for _, m := range two.sent {
			if m.Users[0].State != nil {
				t.Errorf("the denied viewer got %s", look(m.Users[0]))
			}
		}
		if look(last) != "null 20" {
			t.Errorf("the viewer was left with %s", look(last))
		}
	})
}

func TestWhatALostConnectionSwallowedIsShownByTheList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStar(t)
		two, three := s.watchedBy(2), s.watchedBy(3)
		two.got("snapshot online 10")
		three.got("snapshot online 10")
		s.h.Connected()
		synctest.Wait()
		for _, deny := range []bool{true, false} {
			s.h.Disconnected()
			s.lag = true
			s.denies(deny, 2)
			s.becomes(schemas.Away)
			s.mu.Lock()
			s.viewed, s.listed, s.given, s.lag = len(s.log)-1, len(s.log)-1, len(s.log)-1, false // lost on the channel
			s.mu.Unlock()
			s.h.Connected()
			if deny {
				two.got("change null 20")
				three.got("resync away 30")
			} else {
				two.got("change away 50")
				three.got()
			}
		}
	})
}

func TestADeniedViewerSeesTheUserOfflineSinceTheDenial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStar(t, func(c *fanout.Config) { c.HiddenOffline = true })
		two := s.watchedBy(2)
		two.got("snapshot online 10")
		time.Sleep(time.Minute)
		since := schemas.MillisOf(time.Now())
		s.denies(true, 2)
		time.Sleep(time.Minute)
		s.becomes(schemas.Away)
		late := s.watchedBy(2)
		synctest.Wait()
		for _, f := range []*fan{two, late} {
			u := f.sent[len(f.sent)-1].Users[0]
			if len(f.sent) != 1 || look(u) != "offline 20" || u.Since != since || u.LastSeenAt != since {
				t.Errorf("got %+v", f.sent)
			}
		}
	})
}

func TestOneOf1000ViewersIsDeniedByOneReadOfTheList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStar(t)
		var fans []*fan
		for who := range schemas.UserID(1000) {
			fans = append(fans, s.watchedBy(who+2))
		}
		synctest.Wait()
		if s.asked != 0 {
			t.Errorf("the list of a user without one was read %d times", s.asked)
		}
		s.denies(true, 500)
		for _, f := range fans {
			want := []string{"snapshot online 10"}
			if f.who == 500 {
				want = append(want, "change null 20")
			}
			f.got(want...)
		}
		if s.asked != 1 {
			t.Errorf("the list was read %d times", s.asked)
		}
	})
}

func TestAHideAndShowSayNothingToADeniedViewer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStar(t)
		two, three := s.watchedBy(2), s.watchedBy(3)
		synctest.Wait()
		s.sees(schemas.Nobody)
		s.denies(true, 2) // which nobody learns
		s.sees(schemas.Everyone)
		s.sees(schemas.Nobody)
		two.got("snapshot online 10", "change null 20")
		three.got("snapshot online 10", "change null 20")
		s.denies(false, 2)
		two.got()
		s.sees(schemas.Everyone)
		two.got("change online 70")
		three.got("resync online 70")
	})
}

func TestAnErasureEndsTheList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStar(t)
		s.denies(true, 2)
		two := s.watchedBy(2)
		two.got("snapshot null 20")
		s.follows(func(tr *schemas.Transition, _ map[schemas.UserID]schemas.Millis) {
			tr.Cause, tr.To, tr.LastSeen, tr.LastActive, tr.Override = schemas.Erased, schemas.Offline, 0, 0, schemas.Override{}
		})
		s.bring(true)
		two.got("change offline 30")
		s.becomes(schemas.Online)
		two.got("change online 40")
	})
}

// resumes opens a stream that resumes from a cursor; "": it begins.
func (s *star) resumes(who schemas.UserID, events bool, from string) *fan {
	f := s.fan(who)
	if events {
		f.sendEvent = func(id string, message []byte) error { f.last = id; return f.send(message) }
	}
	r := request{kind: subscribe, ids: []schemas.UserID{theStar}, cursors: true}
	if from != "" {
		r.since = must.Get(parseSince("since", from))(s.t)
	}
	f.submit(r)
	synctest.Wait()
	return f
}

func TestAResumeAcrossADenyHasNothingOfTheTimeInBetween(t *testing.T) {
	t.Parallel()
	for _, events := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newStar(t)
			first := s.resumes(2, events, "")
			before := first.last
			first.got("snapshot online 10")
			s.becomes(schemas.Away)
			s.denies(true, 2)
			first.got("change away 20", "change null 30")
			denied := first.last
			s.becomes(schemas.Online)
			for _, from := range []string{before, denied} {
				f := s.resumes(2, events, from)
				denied = f.last
				f.got("change null 30", "resumed")
				if f.trail.position.Versions[0] != cursor.Withheld {
					t.Error("the cursor of a denied viewer has a version")
				}
			}
			s.denies(false, 2)
			s.becomes(schemas.Away)
			synctest.Wait()
			last := ""
			for _, from := range []string{before, denied} {
				f := s.resumes(2, events, from)
				last = f.last
				f.got("change away 60", "resumed")
			}
			s.becomes(schemas.Online)
			s.becomes(schemas.Away)
			s.resumes(2, events, last).got("change online 70", "change away 80", "resumed")
		})
	}
}

func TestADeliveryThatWaitsForAViewerWhoIsDeniedByNowIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStar(t)
		two, three := s.watchedBy(2), s.watchedBy(3)
		for _, f := range []*fan{two, three} {
			f.submit(request{kind: deliveries, on: true})
			f.got("snapshot online 10", "deliveries")
		}
		s.denies(true, 2)
		two.got("change null 20")
		d := &schemas.Delivery{Transition: s.log[1].transition, Recipients: []schemas.UserID{2, 3}}
		must.Do(t, s.h.deliver(t.Context(), d))
		two.got()
		three.got("delivery online 10")
	})
}

// Whatever is behind, lost or broken, and however often a viewer comes anew.
func TestADeniedViewerNeverGetsAnythingOfTheTimeOfTheDenial(t *testing.T) {
	t.Parallel()
	rounds := 500
	if testing.Short() {
		rounds = 50
	}
	for seed := range rounds {
		synctest.Test(t, func(t *testing.T) { chaos(t, uint64(seed)) })
	}
}

func chaos(t *testing.T, seed uint64) {
	draw := rand.New(rand.NewPCG(seed, 0))
	s := newStar(t)
	s.lag, s.slow = true, time.Duration(seed%4)*10*time.Millisecond
	fans := map[schemas.UserID]*fan{}
	var everybody []*fan
	for range 60 {
		switch draw.IntN(14) {
		case 0, 1:
			s.becomes([]schemas.State{schemas.Online, schemas.Away, schemas.Offline}[draw.IntN(3)])
		case 2, 3:
			s.denies(draw.IntN(2) == 0, schemas.UserID(2+draw.IntN(2)))
		case 4:
			s.sees([]schemas.Visibility{schemas.Everyone, schemas.Nobody}[draw.IntN(2)])
		case 5, 6:
			s.mu.Lock()
			s.listed += draw.IntN(len(s.log) - s.listed) // it is written before the view
			s.viewed += draw.IntN(s.listed - s.viewed + 1)
			s.mu.Unlock()
		case 7, 8, 9:
			s.next(draw.IntN(10) > 0)
		case 10:
			s.h.Disconnected()
			for range draw.IntN(4) {
				s.next(false)
			}
			s.h.Connected()
		case 11:
			s.mu.Lock()
			if s.err = nil; draw.IntN(2) == 0 {
				s.err = errors.New("the list cannot be read")
			}
			s.mu.Unlock()
		case 12:
			who := schemas.UserID(draw.IntN(4))
			f := fans[who]
			switch {
			case f == nil || draw.IntN(3) == 0:
				fans[who] = s.resumes(who, false, "")
				everybody = append(everybody, fans[who])
			case draw.IntN(2) == 0:
				f.close()
				fans[who] = s.resumes(who, false, f.last)
				fans[who].mu.Lock()
				fans[who].sent = append(f.sent, fans[who].sent...)
				fans[who].mu.Unlock()
				everybody = append(slices.DeleteFunc(everybody, func(g *fan) bool { return g == f }), fans[who])
			default:
				f.submit(request{kind: subscribe, ids: []schemas.UserID{theStar}, cursors: true})
			}
		case 13:
			time.Sleep(time.Duration(draw.IntN(int(200 * time.Millisecond))))
		}
		if draw.IntN(2) == 0 {
			synctest.Wait()
		}
	}
	s.mu.Lock()
	s.lag, s.err = false, nil
	s.viewed, s.listed = len(s.log)-1, len(s.log)-1
	s.mu.Unlock()
	s.bring(true)
	time.Sleep(15 * time.Minute)
	synctest.Wait()
	end := s.log[len(s.log)-1]
	for _, f := range everybody {
		newest, last := 0, ""
		for _, m := range f.sent {
			for _, u := range m.Users {
				version := must.Get(strconv.Atoi(u.Version))(t)
				if _, denied := s.log[version/10].denied[f.who]; denied && u.State != nil {
					t.Errorf("viewer %d got %s %s", f.who, m.Type, look(u))
				}
				if last = look(u); m.Type != watch.Snapshot && u.State != nil {
					if version < newest || version == newest && m.Type == watch.Change {
						t.Errorf("viewer %d got %s %s after version %d", f.who, m.Type, last, newest)
					}
					newest = version
				}
			}
		}
		want := schemas.StateWord(end.current.State)
		if _, denied := end.denied[f.who]; denied || end.current.Visibility == schemas.Nobody {
			want = "null"
		}
		if state, _, _ := strings.Cut(last, " "); state != want || strings.Contains(last, "stale") {
			t.Errorf("viewer %d was left with %s, want %s", f.who, last, want)
		}
	}
}
