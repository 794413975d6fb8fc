// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// holders parses users with namespaces, such as mallory@bank.
func holders(text string) (all []holder) {
	for one := range strings.FieldsSeq(text) {
		user, namespace, _ := strings.Cut(one, "@")
		all = append(all, holder{user, namespace})
	}
	return all
}

// TestGiveWay checks which user loses a slot to the newcomer; - means none.
func TestGiveWay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ all, newcomer, want string }{
		"one user has all":                        {"mallory@a mallory@b mallory@c", "alice@shop", "mallory@c"},
		"the same user":                           {"mallory@a mallory@b mallory@c", "mallory@d", "-"},
		"many accounts of one namespace":          {"m1@bank m2@bank m3@bank", "alice@shop", "m3@bank"},
		"one more of them":                        {"m1@bank m2@bank m3@bank", "m4@bank", "-"},
		"nobody has two more":                     {"a@a b@b c@c", "alice@shop", "-"},
		"two slots, for whom has none":            {"mallory@a mallory@b alice@shop", "bob@lab", "mallory@b"},
		"back again":                              {"mallory@a alice@shop bob@lab", "mallory@b", "-"},
		"within a namespace by user":              {"mallory@shop mallory@shop mallory@shop", "alice@shop", "mallory@shop"},
		"a namespace of many does not take more":  {"a@shop b@shop c@shop x@p x@q x@r", "d@shop", "-"},
		"the larger share gives way":              {"x@p x@q y@bank z@bank w@bank", "alice@shop", "w@bank"},
		"a user of several namespaces, to one":    {"x@p x@q x@r y@s", "y@t", "x@r"},
		"not once more":                           {"x@p x@q y@t y@s", "y@u", "-"},
		"a user of several namespaces, to nobody": {"x@p x@q x@r y@s", "z@t", "x@r"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, got := holders(tc.all), "-"
			if i := chooseEvicted(all, holders(tc.newcomer)[0]); i >= 0 {
				got = all[i].user + "@" + all[i].namespace
			}
			if got != tc.want {
				t.Errorf("%s gives way, want %s", got, tc.want)
			}
		})
	}
}

// TestGiveWayEnds lets all refused and evicted users retry continuously. After some time no user takes a
// slot from another. Of two users, each can get half of the slots, and no more.
func TestGiveWayEnds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // it is a test
		var want []holder
		for range 40 {
			user := random.IntN(6)
			want = append(want, holder{strconv.Itoa(user * random.IntN(3)), strconv.Itoa(random.IntN(5))})
		}
		const slots = 12
		has, waits := slices.Clone(want[:slots]), slices.Clone(want[slots:])
		changes := 0
		for quiet := 0; quiet < len(waits); {
			next := waits[0]
			waits = append(waits[1:], next)
			i := chooseEvicted(has, next)
			if quiet++; i < 0 {
				continue
			}
			quiet = 0
			if changes++; changes > slots*len(want) {
				t.Fatalf("seed %d: slots change hands without end", seed)
			}
			waits[len(waits)-1] = has[i]
			has = append(slices.Delete(has, i, i+1), next)
		}
	}
	all := holders(strings.Repeat("mallory@a mallory@b mallory@c mallory@d ", 50))
	for n := range 100 {
		newcomer := holder{"alice", "shop-" + strconv.Itoa(n)}
		i := chooseEvicted(all, newcomer)
		if i < 0 {
			t.Fatalf("alice has %d of 200 slots, and no more", n)
		}
		all = append(slices.Delete(all, i, i+1), newcomer)
	}
	if i := chooseEvicted(all, holder{"alice", "shop-100"}); i >= 0 {
		t.Errorf("alice gets more than half, of %s", all[i].user)
	}
}
