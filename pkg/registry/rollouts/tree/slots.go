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

// holder identifies who uses a slot: the namespace of the tree, and the user who has watched the tree the
// longest.
type holder struct{ user, namespace string }

// userName returns the name of the user of a request.
func userName(ctx context.Context) string {
	if user, ok := genericapirequest.UserFrom(ctx); ok {
		return user.GetName()
	}
	return ""
}

// freeSlot makes sure that one more tree can be opened, and returns an error if none can be.
// If all slots are taken, it closes a tree of the user or namespace with the most slots, if that
// has at least two more than the newcomer. The caller holds the lock.
func (t *REST) freeSlot(newcomer holder) error {
	if t.closed {
		return apierrors.NewServiceUnavailable("the server shuts down")
	}
	if len(t.openTrees) < t.MaxOpen || t.closeIdle() {
		return nil
	}
	var all []*openTree
	for _, o := range t.openTrees {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *openTree) int { return a.number - b.number })
	holders := make([]holder, len(all))
	for i, o := range all {
		holders[i] = o.holder()
	}
	i := chooseEvicted(holders, newcomer)
	if i < 0 {
		return tooManyError(fmt.Sprintf("the trees of %d Rollouts are watched already, which is the limit (--max-open-trees)", len(t.openTrees)))
	}
	all[i].evict()
	t.closeTree(all[i].key, all[i])
	return nil
}

func tooManyError(why string) error {
	return apierrors.NewTooManyRequests(why+"; read the tree with GET every few seconds instead", 5)
}

// chooseEvicted returns the index of the holder that loses its slot to the newcomer, or -1 if none
// does. The share of a holder is the number of slots of its user or of its namespace, whichever
// is larger; if holder and newcomer are in one namespace, only their users are compared. A
// holder loses a slot only if its share is larger than the newcomer's by two or more. So the
// largest share shrinks with each change, and two users never take one slot from each other
// in turn. The holder with the largest share is chosen, and its tree that was opened last.
func chooseEvicted(holders []holder, newcomer holder) int {
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
func (o *openTree) holder() holder {
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

// evict marks the tree as closed in favour of another user, so that its viewers get the reason.
func (o *openTree) evict() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.evicted = true
}

// endReason reports whether the watches of a tree have ended. why is the error for viewers; nil if
// the end needs no explanation.
func (o *openTree) endReason() (why error, endReason bool) {
	select {
	case <-o.done:
	default:
		return nil, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.evicted {
		return nil, true
	}
	return tooManyError("this watch was ended to let another user watch a tree: its user or namespace watches the most trees, and all slots (--max-open-trees) are taken"), true
}
