// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// versions counts pods by version.
type versions map[string]int

// monitor watches the pods of a namespace from its creation on, so that pods which exist only
// briefly are counted.
type monitor struct {
	mu   sync.Mutex
	kind string
	pods map[string]*corev1.Pod
	most versions
}

func watchPods(a *app) *monitor {
	a.t.Helper()
	w := &monitor{kind: a.scene.kind, pods: map[string]*corev1.Pod{}, most: versions{}}
	ctx, quit := context.WithCancel(context.Background())
	// The watch starts when the namespace is created, and an ended watch continues from its last resourceVersion.
	var at string
	open := func() (watch.Interface, error) {
		return testEnv.client.Watch(ctx, &corev1.PodList{}, &client.ListOptions{Namespace: a.namespace, Raw: &metav1.ListOptions{ResourceVersion: at}})
	}
	events, err := open()
	if err != nil {
		quit()
		a.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for err == nil {
			for e := range events.ResultChan() {
				if pod, ok := e.Object.(*corev1.Pod); ok {
					at = pod.ResourceVersion
					w.observePod(e.Type, pod)
				}
			}
			if events, err = open(); err != nil && ctx.Err() == nil {
				a.t.Errorf("the monitor cannot watch pods: %v", err)
			}
		}
	}()
	a.t.Cleanup(func() {
		quit()
		<-done
	})
	return w
}

func (w *monitor) observePod(what watch.EventType, pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if what == watch.Deleted || pod.DeletionTimestamp != nil {
		delete(w.pods, pod.Name)
	} else {
		w.pods[pod.Name] = pod
	}
	there := versions{}
	for _, p := range w.pods {
		there[versionOf(w.kind, p.ObjectMeta, p.Spec)]++
	}
	for v, n := range there {
		w.most[v] = max(w.most[v], n)
	}
}

// peak returns the highest number of pods of a version that existed at once.
func (w *monitor) peak(version string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most[version]
}

func (w *monitor) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprint(w.most)
}

// versionOf returns the version of a pod as users see it: the image, and a label that only a
// Deployment sets on its pods.
func versionOf(kind string, meta metav1.ObjectMeta, spec corev1.PodSpec) string {
	image := spec.Containers[0].Image
	version := image[strings.LastIndex(image, ":")+1:]
	_, custom := customKinds[kind] // OpenKruise labels the pods of some kinds
	if hash := meta.Labels["pod-template-hash"]; kind != deployments && !custom && hash != "" {
		version += "+" + hash
	}
	return version
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && pod.DeletionTimestamp == nil {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// pods returns the existing pods, or an error while one of them is not ready.
func (a *app) pods(ctx context.Context) (versions, error) {
	var list corev1.PodList
	if err := testEnv.client.List(ctx, &list, client.InNamespace(a.namespace), client.MatchingLabels(a.labels())); err != nil {
		return nil, err
	}
	got := versions{}
	for i := range list.Items {
		p := &list.Items[i]
		if !ready(p) {
			return nil, fmt.Errorf("%s is not ready", p.Name)
		}
		got[versionOf(a.scene.kind, p.ObjectMeta, p.Spec)]++
	}
	return got, nil
}

// runs returns a check that exactly these pods exist and are ready.
func (a *app) runs(want versions) func(context.Context) error {
	return func(ctx context.Context) error {
		got, err := a.pods(ctx)
		if err == nil && !maps.Equal(got, want) {
			err = fmt.Errorf("runs %v, want %v", got, want)
		}
		return err
	}
}
