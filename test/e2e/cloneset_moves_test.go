// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// Case 48: a version that never gets ready, and the way back.
func clonesBack(t *testing.T) {
	t.Parallel()
	s := startCloned(t, true, nil, nil, with(manual("20%"), "20%"), manual("60%"))
	s.ships("failed")
	s.until("step 1 waits for its pod", s.says("1 of 1 new pods"))
	s.sees(s.at(1, "StepUpgrade"))
	s.ships("v1")
	s.gives("v1")
}

// An abort brings every pod back and keeps the template, held; then it is tried
// again, and rolled back. There is one more pod at a time, and never one less.
func clonesAborted(t *testing.T) {
	t.Parallel()
	owners := map[string]any{"maxUnavailable": int64(0), "maxSurge": int64(1), "partition": "10%"}
	s := startCloned(t, true, owners, nil, with(manual("20%"), "20%"), with(manual("60%"), "50%"), manual("100%"))
	s.guard.atLeast(5)
	s.ships("v2")
	s.step(1, 1, "80%", "v2")
	s.promote(1)
	s.step(2, 3, "40%", "v2")
	s.abort()
	s.stands("100%", "v2")
	s.sees(s.runsPods(versions{"v1": 5}))
	s.sees(s.serves(name, versions{"v1": 5}))
	s.sees(s.weight(""))
	s.post(here.admin, "retry", "", http.StatusCreated)
	s.step(1, 1, "80%", "v2")
	s.post(here.admin, "rollback", "", http.StatusCreated)
	s.gives("v1")
}

// When every pod runs the new version, Kruise has forgotten the stable one.
func clonesAbortedWhenComplete(t *testing.T) {
	t.Parallel()
	s := startCloned(t, false, nil, nil, manual("1"), manual("100%"), manual("100%"))
	s.ships("v2")
	s.step(1, 1, "80%", "v2")
	s.promote(1)
	s.step(2, 5, int64(0), "v2")
	s.abort()
	s.stands("100%", "v2")
	s.sees(s.runsPods(versions{"v1": 5}))
	s.ships("v3")
	s.step(1, 1, "80%", "v3")
	s.promoteAll()
	s.gives("v3")
}

// Case 50: without traffic, the way back may be one of steps, too.
func clonesBackInBatches(t *testing.T) {
	t.Parallel()
	s := startCloned(t, false, nil, func(r *v1beta1.Rollout) {
		r.Annotations = map[string]string{"rollouts.kruise.io/rollback-in-batch": "true"}
	}, manual("20%"), manual("60%"), manual("100%"))
	s.ships("v2")
	s.until("step 1 waits", s.waitsAt(1))
	s.promote(1)
	s.step(2, 3, "40%", "v2")
	s.ships("v1")
	s.until("step 1 waits on the way back", s.waitsAt(1))
	s.until("one more is back", s.runsPods(versions{"v1": 3, "v2": 2}))
	s.promoteAll()
	s.gives("v1")
}

// fifths are five equal steps.
func fifths() []v1beta1.Step {
	return []v1beta1.Step{manual("20%"), manual("40%"), manual("60%"), manual("80%"), manual("100%")}
}

// Case 60: the way back has a name of its own, and one pod of each of its steps,
// though two pods have never left.
func clonesBackNamed(t *testing.T) {
	t.Parallel()
	s := startCloned(t, false, nil, func(r *v1beta1.Rollout) {
		r.Annotations = map[string]string{"rollouts.kruise.io/rollback-in-batch": "true"}
	}, fifths()...).called("1")
	s.ships("v2")
	for step := int32(1); step <= 2; step++ {
		s.until("a step waits", s.waitsAt(step))
		s.promote(step)
	}
	s.until("step 3 waits", s.waitsAt(3))
	s.sees(s.labelled("1", map[string]int{"1": 1, "2": 1, "3": 1}))
	s.called("2").ships("v1")
	s.labelsSteps("2", 1)
	s.gives("v1")
}

// labelsSteps approves each step from one on, and wants one more pod of a release
// labelled at each of five.
func (s *cloned) labelsSteps(id string, from int32) {
	s.t.Helper()
	want := map[string]int{}
	for step := int32(1); step <= 4; step++ {
		want[strconv.Itoa(int(step))] = 1
		if step < from {
			continue
		}
		s.until("a step waits", s.waitsAt(step))
		s.until("each step has a pod", s.labelled(id, want))
		s.promote(step)
	}
	want["5"] = 1
	s.until("the Rollout is Healthy", s.healthy)
	s.sees(s.labelled(id, want))
}

// nameAlone writes a name, and the mark of a release, as some clients do.
func (s *cloned) nameAlone(id string) {
	s.t.Helper()
	s.change(fmt.Sprintf(`{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":%q},"annotations":{"rollouts.kruise.io/in-progressing":"true"}}}`, id))
}

// Case 61: a name alone is a release of pods that stay, and another name at step 3
// counts them anew.
func clonesNameAlone(t *testing.T) {
	t.Parallel()
	s := startCloned(t, false, nil, nil, fifths()...)
	was := s.uids()
	s.nameAlone("1")
	for step := int32(1); step <= 2; step++ {
		s.until("a step waits", s.waitsAt(step))
		s.promote(step)
	}
	s.until("step 3 waits", s.waitsAt(3))
	s.sees(s.labelled("1", map[string]int{"1": 1, "2": 1, "3": 1}))
	s.change(`{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":"2"}}}`)
	s.until("the pods are counted under the other name", s.labelled("2", map[string]int{"1": 1, "2": 1, "3": 1}))
	s.labelsSteps("2", 3)
	s.gives("v1")
	s.same("the pods", was, s.uids())
}

// Case 62: the name changes again at the first step.
func clonesRenamed(t *testing.T) {
	t.Parallel()
	s := startCloned(t, false, nil, nil, fifths()...)
	was := s.uids()
	s.nameAlone("1")
	s.until("step 1 waits", s.waitsAt(1))
	s.change(`{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":"2"}}}`)
	s.labelsSteps("2", 1)
	s.gives("v1")
	s.same("the pods", was, s.uids())
}

// Case 59: pods that come meanwhile are of both versions, as the step says.
func clonesScaled(t *testing.T) {
	t.Parallel()
	s := startCloned(t, false, nil, nil, manual("20%"), manual("40%"), manual("60%"), manual("100%")).called("one")
	s.ships("v2")
	s.step(1, 1, "80%", "v2")
	s.promote(1)
	s.step(2, 2, "60%", "v2")
	s.guard.atMost("v2", 4)
	s.change(`{"spec":{"replicas":10}}`)
	s.until("pods of both versions come", s.runsPods(versions{"v1": 6, "v2": 4}))
	s.until("they are labelled", s.labelled("one", map[string]int{"1": 2, "2": 2}))
	s.sees(s.waitsAt(2))
	s.change(`{"spec":{"replicas":5}}`)
	s.guard.atMost("v2", 10)
	s.until("some go", s.runsPods(versions{"v1": 3, "v2": 2}))
	s.promoteAll()
	s.gives("v2")
}

// Without pods Kruise takes the newest template for the current one. Pods that
// come back are of the stable version all the same.
func clonesDownToNothing(t *testing.T) {
	t.Parallel()
	s := startCloned(t, false, nil, nil, manual("20%"), manual("60%"), manual("100%"))
	s.ships("v2")
	s.step(1, 1, "80%", "v2")
	s.guard.atLeast(0)
	s.change(`{"spec":{"replicas":0}}`)
	s.until("no pod is left", s.runsPods(versions{}))
	s.until("the stable template is set", func(context.Context) error {
		containers, _ := of(s.set(), "spec", "template", "spec", "containers").([]any)
		if v := containers[0].(map[string]any)["image"]; v != image("v1") {
			return fmt.Errorf("the template is of %s", v)
		}
		return nil
	})
	s.guard.atMost("v2", 1)
	s.change(`{"spec":{"replicas":5}}`)
	s.until("one pod is new again", s.runsPods(versions{"v1": 4, "v2": 1}))
	s.guard.atMost("v2", 5)
	s.promoteAll()
	s.gives("v2")
}

// Deleting the Rollout goes on natively.
func clonesDeleted(t *testing.T) {
	t.Parallel()
	s := startCloned(t, true, nil, nil, with(manual("20%"), "20%"), manual("60%"))
	s.ships("v2")
	s.step(1, 1, "80%", "v2")
	s.leaves()
	s.isAs("v2")
}

// leaves deletes the Rollout, and waits until it is gone.
func (s *cloned) leaves() {
	s.t.Helper()
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.rollout}}
	if err := here.client.Delete(s.t.Context(), r); err != nil {
		s.t.Fatal(err)
	}
	s.until("the Rollout is gone", func(ctx context.Context) error {
		if _, err := s.stored(ctx); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Rollout is there: %w", err)
		}
		return nil
	})
}

// So does disabling it.
func clonesDisabled(t *testing.T) {
	t.Parallel()
	s := startCloned(t, true, nil, nil, with(manual("20%"), "20%"), manual("60%"))
	s.ships("v2")
	s.step(1, 1, "80%", "v2")
	s.disables()
	s.isAs("v2")
}

// disables waits until the Rollout is.
func (s *cloned) disables() {
	s.t.Helper()
	s.edit(`{"spec":{"disabled":true}}`)
	s.until("the Rollout is Disabled", s.disabled)
}

// Nobody lets a held one go; what its owner writes is given back in the end.
func clonesFromOutside(t *testing.T) {
	t.Parallel()
	s := startCloned(t, false, nil, nil, manual("20%"), manual("100%"))
	s.ships("v2")
	s.step(1, 1, "80%", "v2")
	s.change(`{"metadata":{"annotations":null},"spec":{"updateStrategy":{"partition":1,"paused":true}}}`)
	set := s.stands("80%", "v2")
	if of(set, "spec", "updateStrategy", "paused") == true {
		t.Error("it is paused")
	}
	s.until("Kruise has seen it", s.runsPods(versions{"v1": 4, "v2": 1}))
	s.stays("one pod is new", s.runsPods(versions{"v1": 4, "v2": 1}))
	s.promoteAll()
	s.until("the Rollout is Healthy", s.healthy)
	s.stands(int64(1), "v2")
	s.until("it is paused as its owner wants", func(context.Context) error {
		if of(s.set(), "spec", "updateStrategy", "paused") != true {
			return errors.New("it is not")
		}
		return nil
	})
}
