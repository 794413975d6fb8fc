// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestMove checks the next action on the pods of a CloneSet with five replicas. Each letter is a
// pod and names its revision; a lower-case letter is a pod that is not ready, and a star after it
// marks a pod for replacement. Unless minReadySeconds is set, ready pods are available at once.
func TestMove(t *testing.T) {
	t.Parallel()
	const years = 2147483646
	for name, tc := range map[string]struct {
		pods, live             string
		partition, surge, gone string
		wait                   int32
		paused                 bool
		want                   string
	}{
		"surge brings new pods":                            {pods: "AAAAA", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "creates 5"},
		"a partial surge creates a share":                  {pods: "AAAAA", live: "b", partition: "0", surge: "50%", gone: "0", wait: years, want: "creates 3"},
		"all pods exist, no ready pod is deleted":          {pods: "AAAAABBBBB", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "nothing"},
		"a share exists, nothing is replaced":              {pods: "AAAAABBB", live: "b", partition: "0", surge: "50%", gone: "0", wait: years, want: "nothing"},
		"an old unready pod is deleted":                    {pods: "AAAAaBBBBB", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "removes a"},
		"a new unready pod stays":                          {pods: "AAAAABBBBb", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "nothing"},
		"a lost new pod is created again below the share":  {pods: "AAAAABB", live: "b", partition: "0", surge: "50%", gone: "0", wait: years, want: "creates 1"},
		"a lost new pod is not created again if all exist": {pods: "AAAAABBBB", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "nothing"},
		"a lost new pod is created if old pods are marked": {pods: "A*A*A*A*A*BBBB", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "creates 1"},
		"a share grows with marked pods":                   {pods: "A*A*A*A*A*BBB", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "creates 2"},
		"marked pods stay while none may be missing":       {pods: "A*A*A*A*A*BBBBB", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "nothing"},
		"marked unready pods are deleted":                  {pods: "A*A*A*A*a*BBBBB", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "removes a"},
		"a third revision with marked pods":                {pods: "A*A*A*A*A*BBB", live: "c", partition: "100%", surge: "100%", gone: "0", wait: years, want: "creates 2"},
		"a third revision marks pods for replacement":      {pods: "AAAAABBBBB", live: "c", partition: "0", surge: "100%", gone: "0", wait: years, want: "replaces BBBBB"},
		"marked pods stay while they are ready":            {pods: "AAAAAB*B*B*B*B*", live: "c", partition: "0", surge: "100%", gone: "0", wait: years, want: "replaces BBBBB"},
		"a third revision with a full partition":           {pods: "AAAAABBBBB", live: "c", partition: "100%", surge: "100%", gone: "0", wait: years, want: "nothing"},
		"a third revision, paused":                         {pods: "AAAAABBBBB", live: "c", partition: "0", surge: "100%", gone: "0", wait: years, paused: true, want: "nothing"},
		"scaled down, no ready pod is deleted":             {pods: "AAAAAAAABBBB", live: "b", partition: "0", surge: "50%", gone: "0", wait: years, want: "replaces A"},
		"settings restored, old pods are deleted":          {pods: "AAAAABBBBB", live: "b", partition: "0", surge: "1", gone: "0", want: "removes AAAAA"},
		"settings restored with a share":                   {pods: "AAAAABBB", live: "b", partition: "0", surge: "1", gone: "0", want: "removes AA"},
		"the first revision again, new pods are deleted":   {pods: "AAAAABBBBB", live: "a", partition: "0", surge: "1", gone: "0", want: "removes BBBBB"},
		"marked pods of both revisions are deleted":        {pods: "A*AAAABBBBB*", live: "a", partition: "0", surge: "1", gone: "0", want: "removes BA"},
		"the first revision again, with a full partition":  {pods: "AAAAABBBBB", live: "a", partition: "100%", surge: "1", gone: "0", want: "removes AAAAA"},
		"stable pods lost during the rollback":             {pods: "AAABBBBB", live: "a", partition: "0", surge: "1", gone: "0", want: "removes BB"},
		"rolling update with a surge":                      {pods: "AAAAA", live: "b", partition: "0", surge: "1", gone: "0", want: "creates 1"},
		"rolling update without a surge":                   {pods: "AAAAA", live: "b", partition: "0", gone: "1", want: "replaces A"},
		"rolling update, none while a pod is not ready":    {pods: "AAAAb", live: "b", partition: "0", gone: "1", want: "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &cloneSet{object: &unstructured.Unstructured{}, now: time.Now(), update: &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-" + tc.live}}}
			s.spec.Replicas, s.spec.MinReadySeconds = new(int32(5)), tc.wait
			u := &s.spec.UpdateStrategy
			u.Partition, u.MaxUnavailable, u.Paused = new(intstr.Parse(tc.partition)), new(intstr.Parse(tc.gone)), tc.paused
			if tc.surge != "" {
				u.MaxSurge = new(intstr.Parse(tc.surge))
			}
			s.pods = podsOf(tc.pods, s.now)
			if got := s.describeMove(); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func podsOf(letters string, now time.Time) []corev1.Pod {
	var pods []corev1.Pod
	for i, letter := range letters {
		if letter == '*' {
			pods[len(pods)-1].Labels[replaceKey] = "true"
			continue
		}
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: string(letter), CreationTimestamp: metav1.NewTime(now.Add(time.Duration(i-1000) * time.Second)),
			Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "web-" + strings.ToLower(string(letter))},
		}}
		if strings.ToUpper(p.Name) == p.Name {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))}}
		}
		pods = append(pods, p)
	}
	return pods
}

// describeMove returns the next move as text.
func (s *cloneSet) describeMove() string {
	say := func(what string, pods []*corev1.Pod) string {
		names := []string{what}
		for _, p := range pods {
			names = append(names, p.Name)
		}
		return strings.Join(names, "")
	}
	switch {
	case s.decideMove().create > 0:
		return fmt.Sprintf("creates %d", s.decideMove().create)
	case len(s.podsToRemove()) > 0:
		return say("removes ", s.podsToRemove())
	case !s.spec.UpdateStrategy.Paused && len(s.podsToUpdate()) > 0:
		return say("replaces ", s.podsToUpdate())
	default:
		return "nothing"
	}
}
