// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
)

// mostTrees is how many trees can be watched at once in this cluster.
const mostTrees = 3

var treeWatchCells = []cell{
	{who: neighbour, what: slow, how: "watches more trees than the limit allows", exclusive: true, attack: watchesTooManyTrees, expect: otherUserGetsTree},
}

// watchTree opens a watch of a tree until the test ends. It returns the first event, or the
// refusal.
func (a *app) watchTree(u *user, namespace, rollout string) answer {
	a.t.Helper()
	r := get("/apis/rollouts.kruise.io/v1beta1/watch/namespaces/" + namespace + "/rollouts/" + rollout + "/tree")
	out, err := http.NewRequestWithContext(a.t.Context(), r.method, u.host+r.path, http.NoBody)
	if err != nil {
		a.t.Fatal(err)
	}
	in, err := u.http.Do(out)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = in.Body.Close() }) // the watch does not end
	line, err := bufio.NewReader(in.Body).ReadString('\n')
	if err != nil && line == "" {
		a.t.Fatal(err)
	}
	return answer{request: r, code: in.StatusCode, body: line}
}

// watchesTooManyTrees watches the trees of Rollouts in another namespace, one more than the limit
// allows.
func watchesTooManyTrees(a *app, u *user) {
	a.t.Helper()
	namespace := a.otherNamespace()
	for i := range mostTrees + 1 {
		rollout := fmt.Sprintf("tree-%d", i)
		a.mustSend(u, post(api(namespace), rolloutJSON(rollout, object{"steps": []object{{"replicas": 1}}})))
		a.answers = append(a.answers, a.watchTree(u, namespace, rollout))
	}
}

// otherUserGetsTree expects that the limit is reached, and that another user can still watch a
// tree.
func otherUserGetsTree(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusTooManyRequests)
	if last := a.answers[mostTrees]; last.code != http.StatusTooManyRequests {
		a.t.Errorf("more than %d trees can be watched: %s", mostTrees, last)
	}
	if got := a.watchTree(testEnv.admin, a.namespace, a.name); got.code != http.StatusOK || !strings.Contains(got.body, `"type":"ADDED"`) {
		a.t.Errorf("the tree of another namespace cannot be watched: %s", got)
	}
	a.checkUnchanged()
	a.checkNextRelease()
}
