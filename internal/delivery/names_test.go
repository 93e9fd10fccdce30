package delivery

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stillhere/stillhere/schemas"
)

func TestNamesStayWithTheirRecipients(t *testing.T) {
	t.Parallel()
	all, names := []schemas.UserID{2, 5, 7, 9}, []string{"two", "", "seven", "nine"}
	for _, c := range []struct {
		some []schemas.UserID
		want []string
	}{
		{all, names},
		{[]schemas.UserID{2, 9}, []string{"two", "nine"}},
		{[]schemas.UserID{5, 7}, []string{"", "seven"}},
		{nil, []string{}},
	} {
		if got := namesOf(c.some, all, names); !slices.Equal(got, c.want) || got == nil {
			t.Errorf("%v: %q, want %q", c.some, got, c.want)
		}
	}
	if got := namesOf(all, all, nil); got != nil {
		t.Errorf("names %q of a delivery without names", got)
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
			if err := apply(consumer, t.Context(), batch(of(1, "a"), of(2, "b"), of(3, ""), of(4, "a"))); err != nil {
				t.Fatal(err)
			}
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
