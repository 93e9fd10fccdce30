package query_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	sealed "github.com/stillhere/stillhere/internal/cursor"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/schemas"
)

// as is t of a user who shows last seen so.
func as(shown schemas.LastSeen, t *schemas.Transition) *schemas.Transition {
	t.Override.LastSeen = shown
	return t
}

// asAway is an arrival in the background.
func asAway(t *schemas.Transition) *schemas.Transition {
	t.To, t.Cause = schemas.Away, schemas.Idle
	return t
}

// chooses is a change of what an offline user shows.
func chooses(shown schemas.LastSeen, t *schemas.Transition) *schemas.Transition {
	t.From, t.Cause = schemas.Offline, schemas.LastSeenSet
	return as(shown, t)
}

// byQuery makes ?user_id= say who reads; 99 is an administrator.
func byQuery(w *world) {
	w.server.SetViewer(func(r *http.Request) query.Viewer {
		id := r.URL.Query().Get("user_id")
		user, _ := schemas.ParseUserID("user_id", id)
		return query.Viewer{User: user, Admin: id == "99"}
	})
}

var (
	instants  = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	lastSeens = regexp.MustCompile(`"last_seen":"(\w+)"`)
)

// said is the answers about a user to a reader, and what they say of when the user was last here.
func (w *world) said(tb testing.TB, user schemas.UserID, by string) (text string, found, words []string) {
	tb.Helper()
	id := user.String()
	for _, r := range [][3]string{
		{http.MethodGet, "/presence/" + id + "?devices=true&user_id=", ""}, {http.MethodGet, "/presence/" + id + "/history?user_id=", ""},
		{http.MethodPost, "/presence/batch?user_id=", `{"user_ids":["` + id + `"],"detail":true}`},
	} {
		answer := w.ask(tb, r[0], r[1]+by, r[2])
		text += fmt.Sprintln(r[1], answer.Code, answer.Header(), answer.Body)
	}
	for _, word := range lastSeens.FindAllStringSubmatch(text, -1) {
		words = append(words, word[1])
	}
	return text, instants.FindAllString(text, -1), words
}

func TestOthersFindNoInstantOfAUserWhoDoesNotShowLastSeen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shown   schemas.LastSeen
		offline bool // hidden users are shown as offline
		word    string
	}{{schemas.SeenCoarsely, false, "recently"}, {schemas.SeenCoarsely, true, "recently"},
		{schemas.SeenNever, false, "hidden"}, {schemas.SeenNever, true, "hidden"}} {
		t.Run(fmt.Sprintf("%s, hidden as offline %t", c.shown, c.offline), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, redistest.Mini(t))
			w.hiddenOffline = c.offline
			w.serve(w.view, w.durable)
			byQuery(w)
			today := now()
			w.upTo(t, today)
			const online, offline, away, hider = 1, 2, 3, 4
			cursor := w.since(t, "", online, offline, away, hider).Cursor
			at := today - 3_600_000
			for user := schemas.UserID(online); user <= hider; user++ {
				w.happen(t, as(c.shown, arrives(user, inEpoch(1, int64(user)), at)))
			}
			idle := asAway(arrives(away, inEpoch(1, 11), at+1000))
			idle.From = schemas.Online
			w.happen(t, as(c.shown, leaves(offline, inEpoch(1, 10), at+1000)), as(c.shown, idle), as(c.shown, hides(hider, inEpoch(1, 12), at+1000)))
			w.hear(t, online, inEpoch(1, 20), today-30_000)
			w.hear(t, away, inEpoch(1, 20), today-30_000)
			for user := schemas.UserID(online); user <= hider; user++ {
				text, found, words := w.said(t, user, "8")
				sinces, said := 0, 2
				if user == online {
					sinces = 2
				} else if user == hider && !c.offline {
					said = 0
				}
				if len(found) != sinces || strings.Count(text, `"since":"`+at.String()) != sinces || len(words) != said ||
					said > 0 && (words[0] != c.word || words[1] != c.word) || !strings.Contains(text, `"changes":[]`) || strings.Contains(text, "_ms") {
					t.Errorf("others read of user %d\n%s", user, text)
				}
				for _, by := range []string{user.String(), "99"} {
					text, found, words = w.said(t, user, by)
					if len(found) < 4 || len(words) > 0 || user == online && !strings.Contains(text, `"last_seen_at":"`+(today-30_000).String()) ||
						user == offline && !strings.Contains(text, `"last_seen_at":"`+(at+999).String()) || user == away && !strings.Contains(text, `_ms":60000`) {
						t.Errorf("%s reads of user %d\n%s", by, user, text)
					}
				}
			}
			listed := w.since(t, cursor, online, offline, away, hider)
			for _, p := range append(listed.Changes, w.since(t, "", online, offline, away, hider).Users...) {
				hidden := p.UserID == hider && !c.offline
				if p.LastSeenAt != 0 || p.LastActiveAt != 0 || (p.Since != 0) != (p.UserID == online) || (p.LastSeen == "") != hidden ||
					!hidden && p.LastSeen != c.word {
					t.Errorf("others get %+v", p)
				}
			}
		})
	}
}

func TestChangesOfThePastShowWhatTheUserShowsNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	today := now()
	w.upTo(t, today)
	cursor := w.since(t, "", 1, 2, 3).Cursor
	at := today - 3_600_000
	w.happen(t, arrives(1, inEpoch(1, 1), at), leaves(1, inEpoch(1, 2), at+1000),
		chooses(schemas.SeenCoarsely, leaves(1, inEpoch(1, 3), at+2000)),
		as(schemas.SeenNever, arrives(2, inEpoch(1, 1), at)), as(schemas.SeenNever, leaves(2, inEpoch(1, 2), at+1000)),
		chooses(0, leaves(2, inEpoch(1, 3), at+2000)),
		as(schemas.SeenCoarsely, arrives(3, inEpoch(1, 1), at)))
	p := w.since(t, cursor, 1, 2, 3)
	wantChanges(t, p, inEpoch(1, 1), inEpoch(1, 2), inEpoch(1, 3), inEpoch(1, 1), inEpoch(1, 2), inEpoch(1, 3), inEpoch(1, 1))
	for i, want := range []struct {
		word  string
		since schemas.Millis
	}{{"recently", 0}, {"recently", 0}, {"recently", 0}, {"hidden", 0}, {"hidden", 0}, {"", at + 1000}, {"recently", at}} {
		if c := p.Changes[i]; c.LastSeen != want.word || c.Since != want.since || (c.LastSeenAt == 0) != (want.word != "") {
			t.Errorf("change %d of user %d is %+v, want %+v", i, c.UserID, c, want)
		}
	}
	// The state did not change, so that each change would say since when it is.
	w.happen(t, chooses(schemas.SeenNever, leaves(1, inEpoch(1, 4), at+3000)),
		chooses(schemas.SeenCoarsely, leaves(1, inEpoch(1, 5), at+4000)))
	for _, c := range w.since(t, p.Cursor, 1, 2, 3).Changes {
		if c.Since != 0 || c.LastSeen == "" {
			t.Errorf("others get %+v", c)
		}
	}
}

func TestWhatAUserShowsIsKeptWhereRedisHasANewerStatusThanTheStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	today := now()
	w.upTo(t, today)
	w.happen(t, arrives(1, inEpoch(1, 5), today-1000))
	status := schemas.Current{User: 1, State: schemas.Online, Visibility: schemas.Everyone, Version: inEpoch(1, 9) - 1}
	status.Override.LastSeen = schemas.SeenCoarsely
	must.Get(w.view.Confirm(t.Context(), 2, []schemas.Current{status}, nil, false))(t)
	if _, body := w.get(t, "/presence/1"); !strings.Contains(body, `"last_seen":"recently"`) || !strings.Contains(body, `"last_seen_at":null`) {
		t.Error(body)
	}
}

// dayOf is the beginning of an instant's day.
func dayOf(m schemas.Millis) schemas.Millis { return m - m%86_400_000 }

func TestTheWordOfACoarseUserIsThatOfTheDay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	const days = 40
	for today := dayOf(now()); ; today = dayOf(now()) {
		w.upTo(t, now())
		var ids []string
		for n := range schemas.Millis(days) {
			for i, at := range []schemas.Millis{today - n*86_400_000, today - n*86_400_000 + 43_210_987, today - n*86_400_000 + 86_399_999} {
				gone := as(schemas.SeenCoarsely, leaves(schemas.UserID(1+3*int(n)+i), inEpoch(1, int64(today/86_400_000)), at))
				gone.LastSeen = at
				w.happen(t, gone)
				ids = append(ids, gone.User.String())
			}
		}
		var detailed struct{ Users []schemas.Presence }
		must.Do(t, json.Unmarshal(w.post(t, `{"user_ids":["`+strings.Join(ids, `","`)+`"],"detail":true}`).Body.Bytes(), &detailed))
		if dayOf(now()) != today {
			continue // it was midnight
		}
		for i, u := range detailed.Users {
			want := "long_ago"
			switch n := i / 3; {
			case n <= 2:
				want = "recently"
			case n <= 7:
				want = "within_a_week"
			case n <= 30:
				want = "within_a_month"
			}
			if u.LastSeen != want || u.LastSeenAt != 0 || u.Since != 0 {
				t.Errorf("%d days later a user is shown as %+v, want %s", i/3, u, want)
			}
		}
		return
	}
}

func TestThePolicyMakesWhatIsStoredCoarseAtOnceForItsTenant(t *testing.T) {
	t.Parallel()
	w := newNamedWorld(t)
	byQuery(w)
	w.upTo(t, now())
	// Ann left while the policy was in force before.
	w.happen(t, of("acme", "ann", as(schemas.SeenByPolicy, leaves(0, 1, now()-5000))),
		of("acme", "bob", as(schemas.SeenNever, leaves(0, 2, now()-5000))),
		of("evil", "ann", leaves(0, 3, now()-5000)))
	ann, bob := people.ID("acme", "ann"), people.ID("acme", "bob")
	stream := func() []schemas.Presence {
		return must.Get(w.reader.Read(t.Context(), []schemas.UserID{people.ID("evil", "ann"), ann},
			[]schemas.Name{{Tenant: "evil", Text: "ann"}, {Tenant: "acme", Text: "ann"}}))(t)
	}
	for _, coarse := range []bool{false, true, false} {
		w.reader.Follow(func(tenant string) schemas.Policy {
			return schemas.Policy{CoarseLastSeen: coarse && tenant == "acme"}
		})
		word := ""
		if coarse {
			word = "recently"
		}
		for path, want := range map[string]string{
			"/presence/ann?tenant=acme": word, "/presence/bob?tenant=acme": "hidden", "/presence/ann?tenant=evil": "",
			"/presence/ann?tenant=acme&user_id=99":              "",
			"/presence/ann?tenant=acme&user_id=" + ann.String(): "", "/presence/ann?tenant=acme&user_id=" + bob.String(): word,
		} {
			if _, body := w.get(t, path); (want == "") == strings.Contains(body, `"last_seen":`) || !strings.Contains(body, want) ||
				(want == "") != instants.MatchString(body) {
				t.Errorf("coarse %t: %s is answered with %s", coarse, path, body)
			}
		}
		if p := stream(); p[0].LastSeen != "" || p[1].LastSeen != word || (p[1].LastSeenAt == 0) != coarse {
			t.Errorf("coarse %t: a stream begins with %+v", coarse, p)
		}
		if _, body := w.get(t, "/presence/changes?tenant=acme&user_ids=ann"); instants.MatchString(body) == coarse {
			t.Errorf("coarse %t: changes begin with %s", coarse, body)
		}
		changes, _, err := w.reader.Missed(t.Context(), "acme", []schemas.UserID{ann}, sealed.Position{At: now(), Versions: []schemas.Version{0}})
		if err != nil || len(changes) != 1 || changes[0].LastSeen != word {
			t.Errorf("coarse %t: a stream that resumes gets %+v (%v)", coarse, changes, err)
		}
		w.want(t, "/presence/ann/audience?tenant=acme&user_id=99", `{"user_id":"ann","tenant":"acme","base":"everyone","last_seen":"exact"}`)
	}
	w.want(t, "/presence/bob/audience?tenant=acme&user_id=99", `{"user_id":"bob","tenant":"acme","base":"everyone","last_seen":"never"}`)
}

func TestOnlyTheUserAndAdministratorsReadTheAudience(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	byQuery(w)
	w.upTo(t, now())
	invisible := as(schemas.SeenCoarsely, hides(2, 2, day))
	invisible.Override.State, invisible.Override.Hides = schemas.Invisible, true
	w.happen(t, as(schemas.SeenNever, hides(1, 1, day)), invisible)
	for path, want := range map[string]string{
		"1/audience?user_id=1": `"1","base":"nobody","last_seen":"never"`, "1/audience?user_id=99": `"1","base":"nobody","last_seen":"never"`,
		"1/audience?user_id=2": `"1","base":null,"last_seen":null`, "1/audience": `"1","base":null,"last_seen":null`,
		"2/audience?user_id=2": `"2","base":"everyone","last_seen":"coarse"`, "3/audience?user_id=3": `"3","base":"everyone","last_seen":"exact"`,
		"2/override?user_id=2": `"2","override":{"state":"invisible"}`, "1/override?user_id=1": `"1","override":null`,
	} {
		w.want(t, "/presence/"+path, `{"user_id":`+want+`}`)
	}
	if status, body := w.get(t, "/presence/1/audience?base=nobody"); status != http.StatusBadRequest {
		t.Error(status, body)
	}
}
