package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestANoticeHasTheNamesOfItsRecipientsAndNoIDOfAUserWithAName(t *testing.T) {
	t.Parallel()
	named, nameless, unnamed := item(1, 7, 10, 2, 5, 7, 9).Delivery, item(1, 7, 10, 2, 5, 7, 9).Delivery, item(1, 7, 10, 2, 5).Delivery
	named.Names, nameless.Transition.Name.Text = []string{"two", "", "seven", "nine"}, "ann"
	people := identity.Named(identity.Key{1})
	for _, c := range []struct {
		of    *schemas.Delivery
		some  []schemas.UserID
		users identity.Users
		want  string
	}{
		{named, named.Recipients, people, "[two seven nine]"},
		{named, []schemas.UserID{2, 9}, people, " [two nine]"},
		{named, []schemas.UserID{5, 7}, identity.Users{}, " [seven]"}, // of a client
		{nameless, []schemas.UserID{5, 7}, identity.Users{}, "ann []"},
		{unnamed, []schemas.UserID{5}, people, " []"},
		{unnamed, []schemas.UserID{5}, identity.Users{}, "7 [5]"},
	} {
		n := Notice{Delivery: to(c.some, c.of)}.Shown(c.users)
		if got := fmt.Sprint(n.User.Text, " ", n.Recipients); strings.TrimSpace(got) != strings.TrimSpace(c.want) || n.Recipients == nil {
			t.Errorf("%v: %s, want %s", c.some, got, c.want)
		}
	}
}

func TestAChannelServesItsTenantsAlone(t *testing.T) {
	t.Parallel()
	of := func(offset int64, tenant string) Item {
		i := item(offset, schemas.UserID(offset), 10, 1)
		i.Delivery.Transition.Name = schemas.Name{Tenant: tenant, Text: "ann"}
		return i
	}
	for _, c := range []struct {
		tenants Tenants
		want    []schemas.UserID
	}{
		{Tenants{}, []schemas.UserID{1, 2, 3, 4}},
		{Tenants{Only: []string{"a", "c"}}, []schemas.UserID{1, 4}},
		{Tenants{Except: []string{"a"}}, []schemas.UserID{2, 3}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{}
			consumer, _ := newConsumer(t, Defaults(), f)
			consumer.Serve(c.tenants)
			must.Do(t, apply(consumer, t.Context(), batch(of(1, "a"), of(2, "b"), of(3, ""), of(4, "a"))))
			var sent []schemas.UserID
			for _, n := range f.told {
				sent = append(sent, n.Transition.User)
			}
			slices.Sort(sent)
			if others := testutil.ToFloat64(consumer.metrics.Others); !slices.Equal(sent, c.want) || int(others) != 4-len(sent) {
				t.Errorf("%+v: sent of %v and skipped %v", c.tenants, sent, others)
			}
		})
	}
	for want, tenants := range map[string]Tenants{
		`tenant "b c": `:      {Only: []string{"a", "b c"}},
		`except_tenant "ü": `: {Except: []string{"ü"}},
		"exclude":             {Only: []string{"a"}, Except: []string{"b"}},
	} {
		if err := tenants.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", tenants, err, want)
		}
	}
}
