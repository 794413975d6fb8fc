// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/weir-rollouts/weir/test/cluster"
	"github.com/weir-rollouts/weir/test/patience"
)

var all = []string{
	cluster.Etcd, cluster.KubeAPIServer, cluster.ControllerManager, cluster.Scheduler, cluster.Kwok,
}

func TestClusterRunsDeployments(t *testing.T) {
	dir := t.TempDir()
	c, err := cluster.Start(t.Context(), cluster.Options{
		Dir:      dir,
		PodReady: cluster.Range{Min: 20 * time.Millisecond, Max: 80 * time.Millisecond},
		Log:      t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			_ = c.Stop() // the test has already failed for another reason
		}
	})
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}

	create(t, client, "good", "registry.example/app:v1")
	create(t, client, "bad", "registry.example/app:failed")
	eventually(t, "3 ready pods", func(ctx context.Context) error { return readyReplicas(ctx, client, "good", 3) })
	eventually(t, "a waiting reason", func(ctx context.Context) error { return imageMissing(ctx, client, "bad") })
	eventually(t, "a pod with address and times", func(ctx context.Context) error { return hasPlausibleStatus(ctx, client, "good") })

	if err := client.AppsV1().Deployments("default").Delete(t.Context(), "good", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no pods left", func(ctx context.Context) error { return podCount(ctx, client, "good", 0) })

	for _, name := range all {
		if err := c.Kill(name); err != nil {
			t.Fatal(err)
		}
		if err := c.Start(name); err != nil {
			t.Fatal(err)
		}
	}
	create(t, client, "after", "registry.example/app:v1")
	eventually(t, "3 ready pods after restarts", func(ctx context.Context) error { return readyReplicas(ctx, client, "after", 3) })

	stopped = true
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if left := processesOf(t, dir); len(left) > 0 {
		t.Errorf("these processes still run after Stop: %v", left)
	}
}

// TestConfigAs checks that a user of ConfigAs has the name of the certificate and no permissions by
// default.
func TestConfigAs(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Options{Nodes: 1, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(c.Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the temporary directory is still there: %v", err)
		}
	})
	config, err := c.ConfigAs("alice", "developers")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err == nil || !strings.Contains(err.Error(), `User "alice"`) {
		t.Errorf("listing pods as alice: want forbidden, naming alice; got %v", err)
	}
}

// TestWeirSurvivesKill installs Weir from its manifests, kills it, and checks that its stored
// objects still exist.
func TestWeirSurvivesKill(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Options{Weir: true, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	rollouts := client.Resource(schema.GroupVersionResource{
		Group: "rollouts.kruise.io", Version: "v1beta1", Resource: "rollouts",
	}).Namespace("default")
	made, err := rollouts.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rollouts.kruise.io/v1beta1",
		"kind":       "Rollout",
		"metadata":   map[string]any{"name": "web"},
		"spec": map[string]any{
			"workloadRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
			"strategy":    map[string]any{"canary": map[string]any{"steps": []any{map[string]any{"replicas": "100%"}}}},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{cluster.WeirAPIServer, cluster.WeirController} {
		if err := c.Kill(name); err != nil {
			t.Fatal(err)
		}
		if err := c.Start(name); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the Rollout to be served again", func(ctx context.Context) error {
		got, err := rollouts.Get(ctx, "web", metav1.GetOptions{})
		if err == nil && got.GetUID() != made.GetUID() {
			err = fmt.Errorf("another Rollout: UID %s, want %s", got.GetUID(), made.GetUID())
		}
		return err
	})
}

func create(t *testing.T, client kubernetes.Interface, name, image string) {
	t.Helper()
	replicas := int32(3)
	labels := map[string]string{"app": name}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}},
			},
		},
	}
	if _, err := client.AppsV1().Deployments("default").Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until the condition returns nil.
func eventually(t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	if err := patience.Until(t.Context(), what, ask); err != nil {
		t.Fatal(err)
	}
}

func readyReplicas(ctx context.Context, client kubernetes.Interface, name string, want int32) error {
	deployment, err := client.AppsV1().Deployments("default").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got := deployment.Status.ReadyReplicas; got != want {
		return fmt.Errorf("%d of %d replicas are ready", got, want)
	}
	return nil
}

func pods(ctx context.Context, client kubernetes.Interface, name string) ([]corev1.Pod, error) {
	list, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func podCount(ctx context.Context, client kubernetes.Interface, name string, want int) error {
	items, err := pods(ctx, client, name)
	if err == nil && len(items) != want {
		err = fmt.Errorf("%d pods, want %d", len(items), want)
	}
	return err
}

// imageMissing returns an error unless all pods are Pending and back off from pulling the image.
func imageMissing(ctx context.Context, client kubernetes.Interface, name string) error {
	items, err := pods(ctx, client, name)
	if err != nil {
		return err
	}
	for i := range items {
		status := items[i].Status
		if status.Phase != corev1.PodPending {
			return fmt.Errorf("pod is %s", status.Phase)
		}
		if len(status.ContainerStatuses) != 1 || status.ContainerStatuses[0].State.Waiting == nil {
			return errors.New("container is not waiting")
		}
		waiting := status.ContainerStatuses[0].State.Waiting
		if waiting.Reason != "ImagePullBackOff" || waiting.Message == "" || status.ContainerStatuses[0].Ready {
			return fmt.Errorf("container waits for %q: %q", waiting.Reason, waiting.Message)
		}
	}
	return podCount(ctx, client, name, 3)
}

func hasPlausibleStatus(ctx context.Context, client kubernetes.Interface, name string) error {
	items, err := pods(ctx, client, name)
	if err != nil {
		return err
	}
	for i := range items {
		status := items[i].Status
		if status.PodIP == "" || status.HostIP == "" || status.StartTime.IsZero() {
			return fmt.Errorf("incomplete status: %+v", status)
		}
		for _, condition := range status.Conditions {
			if age := time.Since(condition.LastTransitionTime.Time); condition.Status != corev1.ConditionTrue || age > patience.Scaled(patience.Long) {
				return fmt.Errorf("condition %s is %s since %s", condition.Type, condition.Status, age)
			}
		}
	}
	return podCount(ctx, client, name, 3)
}

// processesOf finds processes whose command line names dir.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		line, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(line, []byte(dir)) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
