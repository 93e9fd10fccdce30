package query_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// lists are those of denied viewers, by user.
type lists map[schemas.UserID]shown.Denied

// denying is whether a user denies a viewer, if the list is as new as at.
func (l *listed) denying(of lists, user, viewer schemas.UserID, at schemas.Version) (d shown.Denying) {
	if list := of[user]; list.Version >= at {
		d = shown.Denying{Version: list.Version, Since: list.Viewers[viewer]}
		if d.Since != 0 {
			d.Hidden = cmp.Or(l.hidden[[2]schemas.UserID{user, viewer}], list.Version)
		}
	}
	return d
}

// listed is a world with lists in Redis and in the store.
type listed struct {
	*world
	inRedis, inStore lists
	hidden           map[[2]schemas.UserID]schemas.Version // by which change a user denies a viewer, if not the newest
	redis, store     error                                 // of the lists
	calls            int                                   // of Redis
}

func newListed(t *testing.T, offline bool) *listed {
	t.Helper()
	l := &listed{world: newWorld(t, redistest.Mini(t)), inRedis: lists{}, inStore: lists{}, hidden: map[[2]schemas.UserID]schemas.Version{}}
	l.hiddenOffline = offline
	l.serve(listedView{l.view, l}, listedStore{l.durable, l})
	byQuery(l.world)
	return l
}

// denies gives a user a list, everywhere.
func (l *listed) denies(user schemas.UserID, version schemas.Version, viewers map[schemas.UserID]schemas.Millis) {
	list := shown.Denied{Version: version, Viewers: viewers}
	l.inRedis[user], l.inStore[user] = list, list
}

type listedView struct {
	query.View
	l *listed
}

func (v listedView) Denying(_ context.Context, viewer schemas.UserID, users []schemas.UserID, at []schemas.Version) ([]shown.Denying, error) {
	v.l.calls++
	denying := make([]shown.Denying, len(users))
	for i, user := range users {
		denying[i] = v.l.denying(v.l.inRedis, user, viewer, at[i])
	}
	return denying, v.l.redis
}

func (v listedView) Denied(_ context.Context, user schemas.UserID, at schemas.Version) (shown.Denied, error) {
	list := v.l.inRedis[user]
	if v.l.redis != nil {
		return shown.Denied{}, v.l.redis
	}
	if list.Version < at {
		return shown.Denied{}, shown.ErrBehind
	}
	return list, nil
}

type listedStore struct {
	store.Reader
	l *listed
}

func (s listedStore) Denying(_ context.Context, viewer schemas.UserID, users []schemas.UserID) (map[schemas.UserID]shown.Denying, error) {
	denying := map[schemas.UserID]shown.Denying{}
	for _, user := range users {
		if _, known := s.l.inStore[user]; known {
			denying[user] = s.l.denying(s.l.inStore, user, viewer, 0)
		}
	}
	return denying, s.l.store
}

func (s listedStore) DeniedBy(_ context.Context, user, after schemas.UserID, limit int) (list []schemas.Denial, _ schemas.Version, err error) {
	denied := s.l.inStore[user]
	for _, viewer := range slices.Sorted(maps.Keys(denied.Viewers)) {
		if viewer > after && len(list) < limit {
			list = append(list, schemas.Denial{Viewer: viewer, At: denied.Viewers[viewer]})
		}
	}
	return list, denied.Version, s.l.store
}

// under is t of a user whose list has the version.
func under(list schemas.Version, t *schemas.Transition) *schemas.Transition {
	t.Override.Audience = list
	return t
}

// changesList is a change of a list.
func changesList(t *schemas.Transition) *schemas.Transition {
	t.From, t.Cause = t.To, schemas.AudienceSet
	return under(t.Version, t)
}

// waysOut are the requests that show a user; %s is the user.
var waysOut = map[string][3]string{
	"batch":           {http.MethodGet, "/presence/batch?user_ids=%s", ""},
	"batch, unsure":   {http.MethodGet, "/presence/batch?unsure=mark&user_ids=%s", ""},
	"batch by POST":   {http.MethodPost, "/presence/batch?", `{"user_ids":["%s"]}`},
	"details":         {http.MethodPost, "/presence/batch?", `{"user_ids":["%s"],"detail":true}`},
	"user":            {http.MethodGet, "/presence/%s?", ""},
	"devices":         {http.MethodGet, "/presence/%s?devices=true", ""},
	"push":            {http.MethodGet, "/presence/push?user_ids=%s", ""},
	"history":         {http.MethodGet, "/presence/%s/history?", ""},
	"changes":         {http.MethodGet, "/presence/changes?user_ids=%s", ""},
	"changes by POST": {http.MethodPost, "/presence/changes?", `{"user_ids":["%s"]}`},
	"visibility":      {http.MethodGet, "/presence/%s/visibility?", ""},
	"audience":        {http.MethodGet, "/presence/%s/audience?", ""},
	"override":        {http.MethodGet, "/presence/%s/override?", ""},
	"denials":         {http.MethodGet, "/presence/%s/audience/deny?", ""},
}

// varying is what differs between two answers about the same.
var varying = regexp.MustCompile(`"cursor":"[^"]*"|_ms":\d+`)

// everyWayOut is what a viewer is answered about a user.
func (l *listed) everyWayOut(t *testing.T, user schemas.UserID, by string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for name, way := range waysOut {
		fill := strings.NewReplacer("%s", user.String()).Replace
		answer := l.ask(t, way[0], fill(way[1])+"&user_id="+by, fill(way[2]))
		found[name] = varying.ReplaceAllString(strings.TrimSpace(answer.Body.String()), "*")
		if stale := answer.Header().Get("Stale-Since"); stale != "" {
			found[name] += " stale since " + stale
		}
		if answer.Code != http.StatusOK {
			t.Errorf("%s is answered %d %s", name, answer.Code, answer.Body)
		}
	}
	return found
}

// withheldWays are the answers about a user who looks hidden. shownAs is the user's JSON after the id, word the state in a batch.
func withheldWays(user schemas.UserID, shownAs, word, unsure, devices, stale, staleHeader string) map[string]string {
	id := user.String()
	one := `{"user_id":"` + id + `",` + shownAs
	changes := `{"resync":true,"reason":"start","users":[` + one + `}],*,"more":false,"stale_since":` + stale + `}`
	return map[string]string{
		"batch": `{"` + id + `":` + word + `}` + staleHeader, "batch by POST": `{"` + id + `":` + word + `}` + staleHeader,
		"batch, unsure": `{"` + id + `":` + unsure + `}` + staleHeader, "details": `{"users":[` + one + `}]}` + staleHeader,
		"user": one + `}`, "devices": one + `,"device_list":` + devices + `}`, "push": `{"` + id + `":"send"}` + staleHeader,
		"history": `{"changes":[],"next_cursor":null}` + staleHeader, "changes": changes, "changes by POST": changes,
		"visibility": `{"user_id":"` + id + `","visibility":null}`, "audience": `{"user_id":"` + id + `","base":null,"last_seen":null}`,
		"override": `{"user_id":"` + id + `","override":null}`, "denials": `{"user_id":"` + id + `","deny":null,"next":null}`,
	}
}

func TestAUserLooksHiddenToWhomItDeniesInEveryWayOut(t *testing.T) {
	t.Parallel()
	const online, offline, hider, coarse, plain = 1, 2, 3, 4, 5
	for _, asOffline := range []bool{false, true} {
		t.Run(fmt.Sprintf("hidden users as offline %t", asOffline), func(t *testing.T) {
			t.Parallel()
			l := newListed(t, asOffline)
			today := now()
			at, since, list := today-3_600_000, today-1_800_000, inEpoch(1, 3)
			fresh := today + 3_600_000 // on a slow machine too
			l.upTo(t, fresh)
			dnd := as(schemas.SeenCoarsely, arrives(coarse, inEpoch(1, 5), at))
			dnd.Override.State = schemas.DoNotDisturb
			l.happen(t, under(list, arrives(online, inEpoch(1, 5), at)), under(list, arrives(offline, inEpoch(1, 5), at)), under(list, leaves(offline, inEpoch(1, 6), today-60_000)),
				under(list, arrives(hider, inEpoch(1, 5), at)), under(list, hides(hider, inEpoch(1, 6), today-60_000)), under(list, dnd), arrives(plain, inEpoch(1, 5), at))
			for _, user := range []schemas.UserID{online, coarse} {
				l.hear(t, user, inEpoch(1, 20), today-30_000)
			}
			all := []schemas.UserID{online, offline, hider, coarse, plain}
			viewers := func(user schemas.UserID) []string { return []string{"", "99", user.String(), "7", "8"} }
			before := map[string]map[string]string{}
			for _, user := range all {
				for _, by := range viewers(user) {
					l.inRedis[user] = shown.Denied{Version: list}
					before[user.String()+" by "+by] = l.everyWayOut(t, user, by)
				}
			}
			for _, user := range all[:4] {
				l.denies(user, list, map[schemas.UserID]schemas.Millis{8: since})
			}
			for _, behind := range []bool{false, true} {
				if behind {
					for _, user := range all[:4] {
						l.inRedis[user] = shown.Denied{}
						l.inStore[user] = shown.Denied{Version: list - 1}
					}
				}
				for _, user := range all {
					for _, by := range viewers(user) {
						l.calls = 0
						got, want := l.everyWayOut(t, user, by), before[user.String()+" by "+by]
						judged := user != plain && (by == "7" || by == "8")
						if judged != (l.calls > 0) {
							t.Errorf("user %d by %q: %d lists are read", user, by, l.calls)
						}
						if by == user.String() || by == "99" {
							delete(got, "denials")
							delete(want, "denials")
						}
						if judged && (behind || by == "8") {
							want = l.withheldAnswers(user, list, since, fresh, behind, user == coarse)
						}
						for name := range want {
							if got[name] != want[name] {
								t.Errorf("%s of user %d by %q, behind %t:\n%s\nwant\n%s", name, user, by, behind, got[name], want[name])
							}
						}
					}
				}
			}
		})
	}
}

// withheldAnswers are those of a user who is withheld.
func (l *listed) withheldAnswers(user schemas.UserID, list schemas.Version, since, upTo schemas.Millis, behind, coarse bool) map[string]string {
	version, stale, header, unsure := list.String(), "null", "", `"offline"`
	instant := `"` + since.String() + `"`
	if behind {
		version, stale, unsure, instant = "0", `"`+upTo.String()+`"`, `"unsure"`, "null"
		header = " stale since " + upTo.String()
	}
	if !l.hiddenOffline {
		return withheldWays(user, `"state":null,"last_seen_at":null,"last_active_at":null,"devices":null,"kinds":null,"since":null,"version":"`+version+`","stale_since":`+stale,
			"null", "null", "null", stale, header)
	}
	word := ""
	if coarse {
		instant = "null"
		if word = `"last_seen":"recently",`; behind {
			word = `"last_seen":"long_ago",`
		}
	}
	return withheldWays(user, `"state":"offline","last_seen_at":`+instant+`,"last_active_at":`+instant+`,"devices":[],"kinds":{},"since":`+instant+`,"version":"`+version+`",`+word+`"stale_since":`+stale,
		`"offline"`, unsure, "[]", stale, header)
}

// changesFor is what viewer 8 missed of users.
func (l *listed) changesFor(t *testing.T, cursor, ids string) (p page) {
	t.Helper()
	path := "/presence/changes?user_id=8&user_ids=" + ids
	if cursor != "" {
		path += "&since=" + cursor
	}
	_, body := l.get(t, path)
	must.Do(t, json.Unmarshal([]byte(body), &p))
	return p
}

func TestAReaderGetsADenialOnceAndAfterItIsTakenBackThePresentState(t *testing.T) {
	t.Parallel()
	l := newListed(t, false)
	today := now()
	l.upTo(t, today)
	l.happen(t, arrives(1, inEpoch(1, 5), today), arrives(2, inEpoch(1, 5), today))
	start := l.changesFor(t, "", "1,2")
	l.denies(1, inEpoch(1, 6), map[schemas.UserID]schemas.Millis{8: today + 1})
	l.happen(t, changesList(arrives(1, inEpoch(1, 6), today+1)), under(inEpoch(1, 6), leaves(1, inEpoch(1, 7), today+2)), leaves(2, inEpoch(1, 7), today+2))
	p := l.changesFor(t, start.Cursor, "1,2")
	wantChanges(t, p, inEpoch(1, 6), inEpoch(1, 7))
	if p.Changes[0].State != nil {
		t.Errorf("the denied viewer gets %+v", p.Changes[0])
	}
	l.happen(t, under(inEpoch(1, 6), arrives(1, inEpoch(1, 8), today+3)))
	_, before := l.get(t, "/presence/1?user_id=8")
	l.hidden[[2]schemas.UserID{1, 8}] = inEpoch(1, 6)
	l.denies(1, inEpoch(1, 9), map[schemas.UserID]schemas.Millis{8: today + 1, 9: today + 4})
	l.happen(t, changesList(arrives(1, inEpoch(1, 9), today+4)))
	if l.want(t, "/presence/1?user_id=8", strings.TrimSpace(before)); !strings.Contains(before, inEpoch(1, 6).String()) {
		t.Errorf("of a user who denies another viewer too, the denied viewer gets %s", before)
	}
	p = l.changesFor(t, p.Cursor, "1,2")
	wantChanges(t, p)
	l.denies(1, inEpoch(1, 10), map[schemas.UserID]schemas.Millis{9: today + 4})
	l.happen(t, changesList(arrives(1, inEpoch(1, 10), today+5)))
	p = l.changesFor(t, p.Cursor, "1,2")
	wantChanges(t, p, inEpoch(1, 10))
	if p.Changes[0].State == nil || *p.Changes[0].State != "online" {
		t.Errorf("the viewer who is allowed again gets %+v", p.Changes[0])
	}
	wantChanges(t, l.changesFor(t, p.Cursor, "1,2"))
	// By an older cursor neither: the changes in between are from the denial.
	wantChanges(t, l.changesFor(t, start.Cursor, "1,2"), inEpoch(1, 10), inEpoch(1, 7))
}

func TestALogThatIsNewerThanRedisIsJudgedByItsOwnList(t *testing.T) {
	t.Parallel()
	l := newListed(t, false)
	today := now()
	l.upTo(t, today)
	l.happen(t, arrives(1, inEpoch(1, 5), today))
	start := l.changesFor(t, "", "1")
	// Redis has neither the denial nor its mark.
	l.world.inRedis(t, leaves(1, inEpoch(1, 6), today+1))
	l.durably(t, leaves(1, inEpoch(1, 6), today+1))
	deny := changesList(leaves(1, inEpoch(1, 7), today+2))
	l.durably(t, deny, under(deny.Version, arrives(1, inEpoch(1, 8), today+3)))
	l.inStore[1] = shown.Denied{Version: deny.Version, Viewers: map[schemas.UserID]schemas.Millis{8: today + 2}}
	p := l.changesFor(t, start.Cursor, "1")
	if wantChanges(t, p, deny.Version); p.Changes[0].State != nil {
		t.Errorf("the denied viewer gets %+v", p.Changes)
	}
	l.want(t, "/presence/1/history?user_id=8", `{"changes":[],"next_cursor":null}`)
	if _, body := l.get(t, "/presence/1/history?user_id=7"); strings.Count(body, "event_id") != 3 {
		t.Error(body)
	}
}

func TestTheStoresListCountsWhereRedisHasNoneIfItIsAsNewAsWhatIsShown(t *testing.T) {
	t.Parallel()
	l := newListed(t, false)
	today := now()
	l.upTo(t, today)
	old, newer := inEpoch(1, 5), inEpoch(1, 7)
	arrival := under(old, arrives(1, inEpoch(1, 6), today))
	l.durably(t, arrival)
	l.world.inRedis(t, arrival)
	l.denies(1, old, map[schemas.UserID]schemas.Millis{9: today})
	delete(l.inRedis, 1)
	l.want(t, "/presence/batch?user_ids=1&user_id=8", `{"1":"online"}`)
	l.want(t, "/presence/batch?user_ids=1&user_id=9", `{"1":null}`)
	// Redis has a change that the store has not, and may be of after a denial.
	l.world.inRedis(t, under(newer, leaves(1, inEpoch(1, 8), today+1)))
	answer := l.ask(t, http.MethodGet, "/presence/batch?user_ids=1&user_id=8", "")
	if answer.Body.String() != "{\"1\":null}\n" || answer.Header().Get("Stale-Since") != today.String() {
		t.Error(answer.Header(), answer.Body)
	}
	if d, err := l.reader.Denied(t.Context(), 1, newer); !errors.Is(err, shown.ErrBehind) {
		t.Error(d, err)
	}
	l.durably(t, changesList(arrives(1, newer, today)), under(newer, leaves(1, inEpoch(1, 8), today+1)))
	l.inStore[1] = shown.Denied{Version: newer, Viewers: map[schemas.UserID]schemas.Millis{8: today}}
	l.want(t, "/presence/batch?user_ids=1&user_id=9", `{"1":"offline"}`)
	l.want(t, "/presence/batch?user_ids=1&user_id=8", `{"1":null}`)
	// The list that the store has is not as new as a change that somebody else has read.
	denying, err := l.reader.Denying(t.Context(), 9, []schemas.UserID{1, 1}, []schemas.Version{newer, newer + 1})
	if want := []shown.Denying{{Version: newer}, {}}; err != nil || !slices.Equal(denying, want) {
		t.Error(denying, err)
	}
	for at, behind := range map[schemas.Version]bool{1: false, newer: false, newer + 1: true} {
		d, err := l.reader.Denied(t.Context(), 1, at)
		if behind != errors.Is(err, shown.ErrBehind) || !behind && !reflect.DeepEqual(d, l.inStore[1]) {
			t.Error(at, d, err)
		}
	}
	if d, err := l.reader.Denied(t.Context(), 2, 0); err != nil || len(d.Viewers) > 0 {
		t.Error(d, err)
	}
	l.store = errAway
	l.want(t, "/presence/batch?user_ids=1&user_id=9", `{"1":null}`)
	if d, err := l.reader.Denied(t.Context(), 1, newer); !errors.Is(err, shown.ErrBehind) {
		t.Error(d, err)
	}
	l.redis = errAway
	if status, body := l.get(t, "/presence/batch?user_ids=1&user_id=9"); status != http.StatusServiceUnavailable {
		t.Error(status, body)
	}
	if d, err := l.reader.Denied(t.Context(), 1, newer); !errors.Is(err, errAway) {
		t.Error(d, err)
	}
	l.store = nil
	l.want(t, "/presence/batch?user_ids=1&user_id=9", `{"1":"offline"}`)
}

func TestAMergedAnswerNeedsTheListOfTheNewerStore(t *testing.T) {
	t.Parallel()
	l := newListed(t, false)
	today := now()
	l.upTo(t, today)
	older, newer := inEpoch(1, 4), inEpoch(1, 6)
	// What Redis has is newer than the store, and lacks a part.
	for user, audience := range map[schemas.UserID]schemas.Version{1: newer, 2: older} {
		l.durably(t, under(older, arrives(user, inEpoch(1, 5), today)))
		status := schemas.Current{User: user, State: schemas.Offline, Visibility: schemas.Everyone, Version: newer,
			Override: schemas.Override{Audience: audience}}
		must.Get(l.view.Confirm(t.Context(), 2, []schemas.Current{status}, nil, false))(t)
		l.inStore[user] = shown.Denied{Version: older}
	}
	users := must.Get(l.reader.Read(t.Context(), []schemas.UserID{1, 2}, nil))(t)
	if users[0].Audience != newer || users[1].Audience != older || *users[0].State != "offline" {
		t.Errorf("merged are %+v", users)
	}
	l.want(t, "/presence/batch?user_ids=1,2&user_id=8", `{"1":null,"2":"offline"}`) // user 1 may deny the viewer by now
}

func TestOthersDoNotFindInAHistoryThatAListHasChanged(t *testing.T) {
	t.Parallel()
	l := newListed(t, false)
	today := now()
	l.upTo(t, today)
	var log []*schemas.Transition
	for i := range int64(40) {
		version, at := inEpoch(1, i+1), today-100_000+schemas.Millis(i)*1000
		switch next := arrives(1, version, at); i % 5 {
		case 0:
			log = append(log, next)
		case 3:
			log = append(log, leaves(1, version, at))
		default:
			next.LeftOut = 1
			log = append(log, changesList(next))
		}
	}
	l.happen(t, log...)
	l.denies(1, inEpoch(1, 40), map[schemas.UserID]schemas.Millis{9: 1})
	read := func(by string, limit int) (versions []string, leftOut, pages int) {
		for cursor := ""; ; pages++ {
			var p struct {
				Changes    []query.Change
				NextCursor *string `json:"next_cursor"`
			}
			_, body := l.get(t, fmt.Sprintf("/presence/1/history?limit=%d&user_id=%s%s", limit, by, cursor))
			must.Do(t, json.Unmarshal([]byte(body), &p))
			for _, c := range p.Changes {
				versions, leftOut = append(versions, c.Version), leftOut+int(c.LeftOut)
				if by == "8" && c.Cause == "audience" {
					t.Errorf("others read %s", body)
				}
			}
			if p.NextCursor == nil {
				return versions, leftOut, pages + 1
			}
			if cursor = "&cursor=" + *p.NextCursor; len(p.Changes) != limit {
				t.Errorf("a page of %d changes of %d has a next one", len(p.Changes), limit)
			}
		}
	}
	whole, _, _ := read("1", 1000)
	if byAdmin, _, _ := read("99", 3); len(whole) != 40 || !slices.Equal(byAdmin, whole) {
		t.Errorf("the user reads %d changes, an administrator %d", len(whole), len(byAdmin))
	}
	want, left, _ := read("8", 1000)
	if len(want) != 16 || left != 23 { // what was left out after the newest change that others get is not said yet
		t.Errorf("others read %d changes, and %d are left out", len(want), left)
	}
	for _, limit := range []int{1, 2, 3, 4, 8, 15, 16, 17} {
		got, leftOut, pages := read("8", limit)
		if !slices.Equal(got, want) || leftOut != left || pages != (16+limit-1)/limit {
			t.Errorf("in pages of %d others read %v (%d left out), want %v (%d)", limit, got, leftOut, want, left)
		}
	}
	if got, _, _ := read("9", 3); len(got) != 0 {
		t.Errorf("a denied viewer reads %v", got)
	}
}

func TestTheUserAndAdministratorsReadWhomTheUserDenies(t *testing.T) {
	t.Parallel()
	l := newListed(t, false)
	today := now()
	l.upTo(t, today)
	l.happen(t, under(inEpoch(1, 5), arrives(1, inEpoch(1, 5), today)), arrives(2, inEpoch(1, 5), today))
	l.denies(1, inEpoch(1, 5), map[schemas.UserID]schemas.Millis{7: day, 30: day, 4: day})
	one := func(viewer string) string { return `{"user_id":"` + viewer + `","since":"` + day.String() + `"}` }
	for path, want := range map[string]string{
		"1/audience/deny?user_id=1":                  `"1","deny":[` + one("4") + `,` + one("7") + `,` + one("30") + `],"next":null`,
		"1/audience/deny?user_id=99&limit=2":         `"1","deny":[` + one("4") + `,` + one("7") + `],"next":"7"`,
		"1/audience/deny?user_id=99&limit=2&after=7": `"1","deny":[` + one("30") + `],"next":null`,
		"1/audience/deny?user_id=7":                  `"1","deny":null,"next":null`,
		"1/audience/deny":                            `"1","deny":null,"next":null`,
		"2/audience/deny?user_id=2":                  `"2","deny":[],"next":null`,
	} {
		l.want(t, "/presence/"+path, `{"user_id":`+want+`}`)
	}
	for _, bad := range []string{"limit=0", "limit=1001", "after=x", "after=1&after=2", "cursor=1"} {
		for _, by := range []string{"1", "7"} {
			if status, body := l.get(t, "/presence/1/audience/deny?user_id="+by+"&"+bad); status != http.StatusBadRequest {
				t.Errorf("%s is answered %d %s", bad, status, body)
			}
		}
	}
	l.inStore[1] = shown.Denied{Version: inEpoch(1, 4)}
	if answer := l.ask(t, http.MethodGet, "/presence/1/audience/deny?user_id=1", ""); answer.Header().Get("Stale-Since") == "" {
		t.Errorf("a list from before the newest change is answered with %s", answer.Body)
	}
}

func TestDeniedViewersHaveTheNamesThatTheStoreKnows(t *testing.T) {
	t.Parallel()
	l := &listed{world: newNamedWorld(t), inRedis: lists{}, inStore: lists{}}
	l.serve(listedView{l.view, l}, listedStore{l.durable, l})
	l.server.SetUsers(people, tenantOf)
	byQuery(l.world)
	l.upTo(t, now())
	l.happen(t, of("acme", "ann", arrives(0, 1, now())), of("acme", "bob", arrives(0, 2, now())))
	ann := people.ID("acme", "ann")
	l.denies(ann, 1, map[schemas.UserID]schemas.Millis{people.ID("acme", "bob"): day, people.ID("acme", "zoe"): day})
	_, body := l.get(t, "/presence/ann/audience/deny?tenant=acme&user_id="+ann.String())
	for _, want := range []string{`{"user_id":"ann","tenant":"acme","deny":[`, `{"user_id":"bob","tenant":"acme","since":`, `{"user_id":null,"since":`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s does not have %s", body, want)
		}
	}
}
