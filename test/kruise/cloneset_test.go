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

// TestMove says what Kruise does next about five pods that are wanted: a letter for
// each that is there says which revision it runs, small ones are not ready, and a
// star behind one says that it is to be replaced. Pods without years to wait for
// are available at once.
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
		"surge brings new pods":                       {pods: "AAAAA", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "creates 5"},
		"a share of it brings a share":                {pods: "AAAAA", live: "b", partition: "0", surge: "50%", gone: "0", wait: years, want: "creates 3"},
		"all there, nothing ready goes":               {pods: "AAAAABBBBB", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "nothing"},
		"a share there, nothing is replaced":          {pods: "AAAAABBB", live: "b", partition: "0", surge: "50%", gone: "0", wait: years, want: "nothing"},
		"an old one that is not ready goes":           {pods: "AAAAaBBBBB", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "removes a"},
		"a new one that is not ready stays":           {pods: "AAAAABBBBb", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "nothing"},
		"a new one that is lost comes while few are":  {pods: "AAAAABB", live: "b", partition: "0", surge: "50%", gone: "0", wait: years, want: "creates 1"},
		"a new one that is lost of all does not":      {pods: "AAAAABBBB", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "nothing"},
		"but for old ones that are to go":             {pods: "A*A*A*A*A*BBBB", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "creates 1"},
		"and so a share grows":                        {pods: "A*A*A*A*A*BBB", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "creates 2"},
		"which stay while none may be missing":        {pods: "A*A*A*A*A*BBBBB", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "nothing"},
		"though not if they are not ready":            {pods: "A*A*A*A*a*BBBBB", live: "b", partition: "0", surge: "100%", gone: "0", wait: years, want: "removes a"},
		"a third for which some are to go":            {pods: "A*A*A*A*A*BBB", live: "c", partition: "100%", surge: "100%", gone: "0", wait: years, want: "creates 2"},
		"a third, and pods are marked to be replaced": {pods: "AAAAABBBBB", live: "c", partition: "0", surge: "100%", gone: "0", wait: years, want: "replaces BBBBB"},
		"which stay while they are ready":             {pods: "AAAAAB*B*B*B*B*", live: "c", partition: "0", surge: "100%", gone: "0", wait: years, want: "replaces BBBBB"},
		"a third that goes nowhere":                   {pods: "AAAAABBBBB", live: "c", partition: "100%", surge: "100%", gone: "0", wait: years, want: "nothing"},
		"a third that is paused":                      {pods: "AAAAABBBBB", live: "c", partition: "0", surge: "100%", gone: "0", wait: years, paused: true, want: "nothing"},
		"smaller, and nothing ready goes":             {pods: "AAAAAAAABBBB", live: "b", partition: "0", surge: "50%", gone: "0", wait: years, want: "replaces A"},
		"given back, old ones go":                     {pods: "AAAAABBBBB", live: "b", partition: "0", surge: "1", gone: "0", want: "removes AAAAA"},
		"given back half-way":                         {pods: "AAAAABBB", live: "b", partition: "0", surge: "1", gone: "0", want: "removes AA"},
		"the first again, new ones go":                {pods: "AAAAABBBBB", live: "a", partition: "0", surge: "1", gone: "0", want: "removes BBBBB"},
		"and what is marked, of either":               {pods: "A*AAAABBBBB*", live: "a", partition: "0", surge: "1", gone: "0", want: "removes BA"},
		"the first again, held at all":                {pods: "AAAAABBBBB", live: "a", partition: "100%", surge: "1", gone: "0", want: "removes AAAAA"},
		"stable lost some on the way back":            {pods: "AAABBBBB", live: "a", partition: "0", surge: "1", gone: "0", want: "removes BB"},
		"natively, one more first":                    {pods: "AAAAA", live: "b", partition: "0", surge: "1", gone: "0", want: "creates 1"},
		"natively, one less":                          {pods: "AAAAA", live: "b", partition: "0", gone: "1", want: "replaces A"},
		"natively, none while one is not ready":       {pods: "AAAAb", live: "b", partition: "0", gone: "1", want: "nothing"},
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

// describeMove says what the next move would be.
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
