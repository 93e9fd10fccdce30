package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func status(user schemas.UserID, state schemas.State, visibility schemas.Visibility, since schemas.Millis) row {
	s := schemas.Status{User: user, State: state, Visibility: visibility, Since: since, LastSeen: since + 1, Version: 1}
	return rowOf(&schemas.Record{Key: user.Key(), Value: s.Encode()})
}

func listed(u *userSet, of selection) string {
	of.server = serverUnder(schemas.Policy{})
	rows, _ := u.list(of, time.Now())
	var words []string
	for _, r := range rows {
		words = append(words, fmt.Sprintf("%d:%s", r.user, of.stateOf(r)))
	}
	return strings.Join(words, " ")
}

func TestTheListHasWhoIsPresentOrHiddenInTheOrderAskedFor(t *testing.T) {
	t.Parallel()
	u := newUserSet()
	apply := func(rows ...row) {
		must.Do(t, u.Apply(t.Context(), stream.Batch[row]{Items: rows}))
		u.sorted = nil // as if a second had passed
	}
	gone := rowOf(&schemas.Record{Key: schemas.UserID(4).Key()})
	apply(status(10, schemas.Online, schemas.Everyone, 50), status(9, schemas.Away, schemas.Everyone, 60), status(100, schemas.Online, schemas.Everyone, 40),
		status(4, schemas.Online, schemas.Everyone, 1), gone, status(5, schemas.Offline, schemas.Everyone, 1),
		status(7, schemas.Online, schemas.Nobody, 70), status(8, schemas.Offline, schemas.Nobody, 80), rowOf(&schemas.Record{Key: []byte("x")}))
	everyone := audience{all: true}
	admin := audience{all: true, admin: true}
	for want, of := range map[string]selection{
		"7:hidden 8:hidden 9:away 10:online 100:online":  {audience: everyone, by: "user_id"},
		"7:online 8:offline 9:away 10:online 100:online": {audience: admin, by: "user_id"},
		"100:online 10:online 9:away 8:hidden 7:hidden":  {audience: everyone, by: "user_id", down: true},
		"7:hidden 8:hidden 100:online 10:online 9:away":  {audience: everyone, by: "since"},
		"10:online 100:online":                           {audience: everyone, by: "user_id", prefix: "10"},
		"10:online 100:online ":                          {audience: everyone, by: "user_id", states: "online"},
		"7:hidden 8:hidden":                              {audience: everyone, by: "user_id", states: "hidden"},
		"9:away 10:online 100:online":                    {audience: audience{all: true, offline: true}, by: "user_id"},
		"7:online 8:offline":                             {audience: admin, by: "user_id", states: "hidden"},
		"8:offline 9:away":                               {audience: admin, by: "user_id", states: "offline,away"},
		"9:away 7:hidden 8:hidden 10:online 100:online":  {audience: everyone, by: "state"},
	} {
		if got := listed(u, of); got != strings.TrimSpace(want) {
			t.Errorf("%+v lists %q, not %q", of, got, want)
		}
	}
	apply(status(7, schemas.Online, schemas.Everyone, 70), status(8, schemas.Offline, schemas.Everyone, 80))
	if got := listed(u, selection{audience: everyone, by: "user_id", prefix: "7"}); got != "7:online" {
		t.Errorf("who shows again is %q", got)
	}
}

func TestAWindowSeesTheOrderOfTheWindowBeforeForASecond(t *testing.T) {
	t.Parallel()
	u, now := newUserSet(), time.UnixMilli(1000)
	all := selection{audience: audience{all: true}, by: "user_id"}
	put := func(user schemas.UserID) {
		_ = u.Apply(t.Context(), stream.Batch[row]{Items: []row{status(user, schemas.Online, schemas.Everyone, 1)}})
	}
	length := func(at time.Time) int {
		rows, _ := u.list(all, at)
		return len(rows)
	}
	put(1)
	if n := length(now); n != 1 {
		t.Fatal(n)
	}
	put(2)
	if n := length(now.Add(orderingLifetime)); n != 1 {
		t.Errorf("within a second the list has grown to %d", n)
	}
	if n := length(now.Add(orderingLifetime + 1)); n != 2 {
		t.Errorf("after a second the list has %d", n)
	}
}

func TestAWindowAfterAllUsersAreReadIsNotOfThoseWhoWereReadBefore(t *testing.T) {
	t.Parallel()
	u, now := newUserSet(), time.UnixMilli(1000)
	all := selection{audience: audience{all: true}, by: "user_id"}
	if rows, _ := u.list(all, now); len(rows) != 0 {
		t.Fatal(rows)
	}
	_ = u.Apply(t.Context(), stream.Batch[row]{Items: []row{status(1, schemas.Online, schemas.Everyone, 1)}})
	u.complete()
	if rows, _ := u.list(all, now); len(rows) != 1 {
		t.Errorf("the list has %d users, of 1", len(rows))
	}
}

func TestMoreUsersThanTheBoundAreLeftOutAndThatIsSaid(t *testing.T) {
	t.Parallel()
	u := newUserSet()
	u.most = 2
	for user := range schemas.UserID(3) {
		_ = u.Apply(t.Context(), stream.Batch[row]{Items: []row{status(user+1, schemas.Online, schemas.Everyone, 1)}})
	}
	if rows, truncated := u.list(selection{audience: audience{all: true}, by: "user_id"}, time.Now()); len(rows) != 2 || !truncated {
		t.Errorf("%d users, truncated: %v", len(rows), truncated)
	}
}

func TestOfATenantOnlyItsUsersAreListed(t *testing.T) {
	t.Parallel()
	u := newUserSet()
	for i, name := range []schemas.Name{{Tenant: "acme", Text: "ann"}, {Tenant: "evil", Text: "anna"}, {Text: "anton"}, {}} {
		s := schemas.Status{User: schemas.UserID(i + 1), State: schemas.Online, Visibility: schemas.Everyone, Version: 1, Name: name}
		_ = u.Apply(t.Context(), stream.Batch[row]{Items: []row{rowOf(&schemas.Record{Key: s.User.Key(), Value: s.Encode()})}})
	}
	for want, a := range map[string]audience{"1:online": {tenant: "acme"}, "3:online": {}, "1:online 2:online 3:online": {all: true}} {
		if got := listed(u, selection{audience: a, text: true, by: "user_id", prefix: "an"}); got != want {
			t.Errorf("%+v sees %q, not %q", a, got, want)
		}
	}
}

func TestTheFeedShowsOfHiddenUsersTheHideAlone(t *testing.T) {
	t.Parallel()
	hide := &schemas.Transition{User: 1, From: schemas.Online, To: schemas.Online, Cause: schemas.VisibilityChange, Visibility: schemas.Nobody}
	hidden := &schemas.Transition{User: 1, From: schemas.Online, To: schemas.Away, Cause: schemas.Idle, Visibility: schemas.Nobody}
	open := &schemas.Transition{User: 2, From: schemas.Online, To: schemas.Away, Cause: schemas.Idle, Visibility: schemas.Everyone}
	named := &schemas.Transition{User: 3, To: schemas.Away, Cause: schemas.Idle, Visibility: schemas.Everyone, Name: schemas.Name{Tenant: "acme", Text: "ann"}}
	list := &schemas.Transition{User: 2, From: schemas.Away, To: schemas.Away, Cause: schemas.AudienceSet, Visibility: schemas.Everyone}
	every := audience{all: true}
	for i, c := range []struct {
		f    feedFilter
		t    *schemas.Transition
		want bool
	}{
		{feedFilter{audience: every}, hide, true},
		{feedFilter{audience: every, state: schemas.Online}, hide, false},                                            // else the filter would tell the state
		{feedFilter{audience: audience{all: true, offline: true}, causes: []schemas.Cause{schemas.Bye}}, hide, true}, // it looks so
		{feedFilter{audience: every}, hidden, false},
		{feedFilter{audience: audience{all: true, admin: true}}, hidden, true},
		{feedFilter{audience: every}, open, true},
		{feedFilter{audience: every}, list, false},
		{feedFilter{audience: audience{all: true, admin: true}}, list, true},
		{feedFilter{audience: every, user: 1}, open, false},
		{feedFilter{audience: every, state: schemas.Away, causes: []schemas.Cause{schemas.Bye, schemas.Idle}}, open, true},
		{feedFilter{audience: every, causes: []schemas.Cause{schemas.Bye}}, open, false},
		{feedFilter{text: true, audience: audience{tenant: "acme"}}, named, true},
		{feedFilter{text: true, audience: audience{tenant: "evil"}}, named, false},
		{feedFilter{text: true, audience: audience{}}, open, false}, // whose name is not known
	} {
		if _, got := c.f.shows(c.t); got != c.want {
			t.Errorf("case %d: %v", i, got)
		}
	}
	show := &schemas.Transition{User: 1, At: 9, From: schemas.Away, To: schemas.Online, LastSeen: 5, LeftOut: 3, Cause: schemas.VisibilityChange}
	if seen, _ := (&feedFilter{audience: every}).shows(show); seen.From != schemas.Online || seen.LastSeen != 9 || seen.LeftOut != 0 {
		t.Errorf("a show tells of the time before: %+v", seen)
	}
	s := serverUnder(schemas.Policy{})
	if r := s.feedRowOf(&feedFilter{audience: every}, hide); r.From != hiddenWord || r.To != hiddenWord || r.LastSeenAt != 0 {
		t.Errorf("a hide is shown as %+v", r)
	}
}

// phones are a device of each user.
func phones(users ...schemas.UserID) (all []deviceSeen) {
	for _, user := range users {
		all = append(all, deviceSeen{user, 7})
	}
	return all
}

func TestGatewaysAreAliveDrainingOrLost(t *testing.T) {
	t.Parallel()
	var g gatewaySet
	p := schemas.DefaultPolicy()
	silence, ttl := schemas.Millis(p.GatewaySilence.Milliseconds()), schemas.Millis(p.OnlineTTL.Milliseconds())
	hear := func(gateway string, epoch, at schemas.Millis, users ...schemas.UserID) {
		g.hear(&frameSeen{gateway: gateway, epoch: epoch, time: at, come: phones(users...)})
	}
	shown := func() string {
		var words []string
		for _, one := range g.list(p, p.OnlineTTL) {
			words = append(words, fmt.Sprintf("%s@%d %s %d", one.Gateway, one.Epoch, one.State, *one.Users))
		}
		return strings.Join(words, ", ")
	}
	const begin = schemas.Millis(1_000_000)
	hear("a", 1, begin, 1, 2, 3)
	hear("b", 1, begin, 4)
	g.hear(&frameSeen{gateway: "a", epoch: 1, time: begin, left: phones(3, 9)})
	g.hear(&frameSeen{time: begin + 1}) // a tick
	if got := shown(); got != "a@1 alive 2, b@1 alive 1" {
		t.Error(got)
	}
	hear("a", 1, begin+silence)
	g.hear(&frameSeen{time: begin + silence + 1})
	if got := shown(); got != "b@1 lost 1, a@1 alive 2" {
		t.Error(got)
	}
	hear("b", 5, begin+silence+2, 4)
	g.hear(&frameSeen{gateway: "a", epoch: 1, time: begin + silence + 3, draining: true})
	if got := shown(); got != "b@1 lost 1, a@1 draining 2, b@5 alive 1" {
		t.Error(got)
	}
	hear("b", 5, begin+ttl+2, 4)
	g.hear(&frameSeen{time: begin + ttl + silence + 4})
	if got := shown(); got != "b@1 lost 0, b@5 lost 1" {
		t.Error(got)
	}
	g.hear(&frameSeen{time: begin + ttl + 2 + schemas.Millis(lostFor.Milliseconds()) + 1})
	if got := shown(); got != "" || g.heard != 0 {
		t.Errorf("%q and %d users are kept", got, g.heard)
	}
}

func TestUsersOfGatewaysAreNotCountedIfThereAreTooMany(t *testing.T) {
	t.Parallel()
	g := gatewaySet{heard: maxHeard}
	g.hear(&frameSeen{gateway: "a", epoch: 1, time: 1000, come: phones(1)})
	g.hear(&frameSeen{gateway: "b", epoch: 1, time: 1000, come: phones(2), left: phones(1)})
	if all := g.list(schemas.DefaultPolicy(), time.Minute); len(all) != 2 || all[0].Users != nil {
		t.Errorf("%+v", all)
	}
}
