package fair

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// order takes everything and returns whose items came.
func order(t *Turns[int], cost func(tenant string) int) (tenants string) {
	for {
		tenant, _, ok := t.Next(0)
		if !ok {
			return tenants
		}
		t.Charge(tenant, cost(tenant))
		tenants += tenant
	}
}

func pushed(quantum int, weight Weight, counts map[string]int) *Turns[int] {
	t := NewTurns[int](quantum, weight)
	for _, tenant := range []string{"a", "b", "c"} {
		for i := range counts[tenant] {
			t.Push(tenant, i)
		}
	}
	return t
}

func one(string) int { return 1 }

func TestTenantsGetTurns(t *testing.T) {
	t.Parallel()
	weight := func(tenant string) int { return map[string]int{"b": 2}[tenant] }
	for name, c := range map[string]struct {
		turns *Turns[int]
		cost  func(string) int
		want  string
	}{
		"equal":                   {pushed(1, nil, map[string]int{"a": 4, "b": 2, "c": 1}), one, "abcabaa"},
		"by weight":               {pushed(1, weight, map[string]int{"a": 3, "b": 3}), one, "abbaba"},
		"by cost":                 {pushed(2, nil, map[string]int{"a": 3, "b": 6}), func(tenant string) int { return map[string]int{"a": 2, "b": 1}[tenant] }, "abbabbabb"},
		"a debt is paid in turns": {pushed(1, nil, map[string]int{"a": 2, "b": 3}), func(tenant string) int { return map[string]int{"a": 3, "b": 1}[tenant] }, "abbba"},
		"alone":                   {pushed(1, nil, map[string]int{"c": 3}), func(string) int { return 100 }, "ccc"},
	} {
		if got := order(c.turns, c.cost); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestADebtOutlivesAnEmptyQueue(t *testing.T) {
	t.Parallel()
	turns := NewTurns[int](1, nil)
	turns.Push("a", 0)
	for range 6 {
		turns.Push("b", 0)
	}
	got := ""
	for range 6 {
		tenant, _, _ := turns.Next(1)
		if got += tenant; tenant == "a" { // it has one item at a time, each of which costs 3
			turns.Charge("a", 2)
			turns.Push("a", 0)
		}
	}
	if got != "abbbab" && got != "abbabb" {
		t.Errorf("%s: the tenant of large items gets more than its share", got)
	}
}

func TestEachTenantsItemsStayInOrderWhateverIsPutBack(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	turns := NewTurns[int](3, nil)
	pushed, given := map[string]int{}, map[string]int{}
	length := 0
	for range 20_000 {
		if random.IntN(2) == 0 {
			tenant := fmt.Sprint(random.IntN(5))
			turns.Push(tenant, pushed[tenant])
			pushed[tenant]++
			length++
			continue
		}
		type taken struct {
			tenant string
			item   int
		}
		var some []taken
		for range random.IntN(6) {
			if tenant, item, ok := turns.Next(1); ok {
				some = append(some, taken{tenant, item})
			}
		}
		for keep := random.IntN(len(some) + 1); len(some) > keep; some = some[:len(some)-1] {
			last := some[len(some)-1]
			turns.PutBack(last.tenant, last.item, 1)
		}
		for _, s := range some {
			if s.item != given[s.tenant] {
				t.Fatalf("tenant %s: item %d, want %d", s.tenant, s.item, given[s.tenant])
			}
			given[s.tenant]++
			length--
		}
		if turns.Len() != length {
			t.Fatalf("%d items, want %d", turns.Len(), length)
		}
	}
	for tenant, first := range turns.Fronts() {
		if first != given[tenant] || turns.LenOf(tenant) != pushed[tenant]-given[tenant] {
			t.Errorf("tenant %s: %d items from %d on", tenant, turns.LenOf(tenant), first)
		}
	}
}

func TestWhatIsDroppedIsTheNewestOfTheLongestQueue(t *testing.T) {
	t.Parallel()
	turns := pushed(1, nil, map[string]int{"a": 5, "b": 2})
	if tenant, item, ok := turns.DropLast(); tenant != "a" || item != 4 || !ok || turns.Longest() != 4 {
		t.Errorf("dropped %s %d", tenant, item)
	}
	if !turns.Remove("b", func(item int) bool { return item == 0 }) || turns.Remove("b", func(item int) bool { return item == 0 }) || turns.Len() != 5 {
		t.Errorf("%d items are left", turns.Len())
	}
}
