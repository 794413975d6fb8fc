// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

//go:embed stages.yaml
var stages string

const stagesFile = "kwok.yaml"

func (c *Cluster) writeStages() error {
	text := strings.NewReplacer(
		"durationMilliseconds: PodReadyMin", "durationMilliseconds: "+strconv.FormatInt(c.opts.PodReady.Min.Milliseconds(), 10),
		"jitterDurationMilliseconds: PodReadyMax", "jitterDurationMilliseconds: "+strconv.FormatInt(c.opts.PodReady.Max.Milliseconds(), 10),
	).Replace(stages)
	if err := os.WriteFile(c.path(stagesFile), []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing the stages: %w", err)
	}
	return nil
}

// createNodes registers the nodes as kubelets would, with a status.
func (c *Cluster) createNodes(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	for i := range c.opts.Nodes {
		_, err := client.CoreV1().Nodes().Create(ctx, node(i), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating a node: %w", err)
		}
	}
	return nil
}

func node(i int) *corev1.Node {
	name := fmt.Sprintf("node-%d", i)
	room := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("1000"),
		corev1.ResourceMemory:           resource.MustParse("4Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("4Ti"),
		corev1.ResourcePods:             resource.MustParse("10000"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname:       name,
				corev1.LabelOSStable:       "linux",
				corev1.LabelArchStable:     "amd64",
				corev1.LabelTopologyZone:   fmt.Sprintf("zone-%d", i%3),
				corev1.LabelTopologyRegion: "local",
			},
		},
		Status: corev1.NodeStatus{
			Capacity:    room,
			Allocatable: room,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.243.%d.%d", i/250, i%250+1)},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				OperatingSystem: "linux", Architecture: "amd64",
				KubeletVersion: "v1.37.1", ContainerRuntimeVersion: "kwok://0.8.0",
			},
		},
	}
}

// awaitNodes waits until the whole control plane works: kwok makes the nodes ready, and the
// controller manager removes their taints and creates the default service account, without which no
// pod can be created.
func (c *Cluster) awaitNodes(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return c.poll(ctx, "waiting for nodes", func(ctx context.Context) error {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range nodes.Items {
			if !usable(&nodes.Items[i]) {
				return fmt.Errorf("node %s is not ready yet", nodes.Items[i].Name)
			}
		}
		if len(nodes.Items) < c.opts.Nodes {
			return errors.New("not all nodes exist yet")
		}
		_, err = client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func usable(node *corev1.Node) bool {
	if len(node.Spec.Taints) > 0 {
		return false
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
