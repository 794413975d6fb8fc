// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// holder has a slot: the user who has watched a tree for the longest time of its viewers, and
// the namespace of the tree.
type holder struct{ user, namespace string }

// userOf is the name of the user of a request.
func userOf(ctx context.Context) string {
	if user, ok := genericapirequest.UserFrom(ctx); ok {
		return user.GetName()
	}
	return ""
}

// makeRoom makes room for one more tree, or says why there is none. The slots are shared by
// users and by namespaces: one that has many gives way to one that has fewer. The caller has
// the lock.
func (t *REST) makeRoom(newcomer holder) error {
	if t.closed {
		return apierrors.NewServiceUnavailable("the server shuts down")
	}
	if len(t.open) < t.MaxOpen || t.closeIdle() {
		return nil
	}
	var all []*open
	for _, o := range t.open {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *open) int { return a.number - b.number })
	holders := make([]holder, len(all))
	for i, o := range all {
		holders[i] = o.holder()
	}
	i := giveWay(holders, newcomer)
	if i < 0 {
		return tooMany(fmt.Sprintf("trees of %d Rollouts are watched, and no more can be", len(t.open)))
	}
	all[i].oust()
	t.close(all[i].key, all[i])
	return nil
}

func tooMany(why string) error {
	return apierrors.NewTooManyRequests(why+"; GET the tree from time to time instead", 5)
}

// giveWay returns the place of the holder that gives its slot to a newcomer, or -1. It is one
// that would have more than the newcomer also afterwards: what counts is the larger of the
// numbers of its user and of its namespace, and within one namespace that of its user. So the
// largest share becomes smaller with each change of hands, and nobody takes a slot back. Of
// several, the holder with most gives way, and of its trees the one that was opened last.
func giveWay(holders []holder, newcomer holder) int {
	users, namespaces := map[string]int{}, map[string]int{}
	for _, h := range holders {
		users[h.user]++
		namespaces[h.namespace]++
	}
	share := func(h holder) int {
		if h.namespace == newcomer.namespace {
			return users[h.user]
		}
		return max(users[h.user], namespaces[h.namespace])
	}
	mine := max(users[newcomer.user], namespaces[newcomer.namespace])
	chosen, most := -1, 0
	for i, h := range holders {
		has := mine
		if h.namespace == newcomer.namespace {
			has = users[newcomer.user]
		}
		if excess := share(h) - has; excess > 1 && excess >= most {
			chosen, most = i, excess
		}
	}
	return chosen
}

// holder returns who has the slot of a tree.
func (o *open) holder() holder {
	o.mu.Lock()
	defer o.mu.Unlock()
	h, first := holder{namespace: o.key.Namespace}, 0
	for v := range o.viewers {
		if first == 0 || v.number < first {
			first, h.user = v.number, v.user
		}
	}
	return h
}

// oust has the viewers of a tree told why it ends.
func (o *open) oust() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ousted = true
}

// ended reports whether the watches of a tree have ended, and why viewers are told so.
func (o *open) ended() (why error, ended bool) {
	select {
	case <-o.done:
	default:
		return nil, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ousted {
		return nil, true
	}
	return tooMany("another user needs this slot, and this user or namespace watches the most trees"), true
}
