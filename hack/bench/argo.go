// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/test/cluster"
)

// argo is Argo Rollouts, as hack/argo.sh builds it: canary releases without traffic routing. Its
// controller runs with default flags and with the permissions of its manifest.
type argo struct{ options }

const (
	argoName       = "argo-rollouts" // of the process, the namespace and the service account
	argoController = "rollouts-controller"
)

var argoRollouts = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "rollouts"}

func (argo) processes() []string { return []string{argoName} }

func (a argo) start(ctx context.Context, p *plane) error {
	if err := p.start(ctx, a.podReady, cluster.Options{}); err != nil {
		return err
	}
	dir, err := filepath.Abs(filepath.Join(p.cluster.Bin(), "..", "argo"))
	if err != nil {
		return err
	}
	if err := installArgo(ctx, p.cluster, filepath.Join(dir, "install.yaml")); err != nil {
		return fmt.Errorf("installing Argo Rollouts: %w", err)
	}
	kubeconfig, err := p.cluster.KubeconfigAs("system:serviceaccount:"+argoName+":"+argoName, "system:serviceaccounts", "system:serviceaccounts:"+argoName)
	if err != nil {
		return err
	}
	health, metrics, err := freePorts()
	if err != nil {
		return err
	}
	args := []string{
		"--kubeconfig=" + kubeconfig, "--healthzPort=" + strconv.Itoa(health), "--metricsPort=" + strconv.Itoa(metrics),
	}
	cmd := exec.Command(filepath.Join(dir, argoController), args...)
	cmd.Env = append(os.Environ(), "POD_NAMESPACE="+argoName)
	return p.spawn(ctx, argoName, cmd, filepath.Join(dir, argoController+".log"), fmt.Sprintf("http://127.0.0.1:%d/healthz", health))
}

// installArgo applies the manifest as kubectl apply -n argo-rollouts does, without running a pod.
func installArgo(ctx context.Context, c *cluster.Cluster, manifest string) error {
	f, err := os.Open(manifest)
	if err != nil {
		return err
	}
	defer f.Close()
	objects, err := cluster.Decode(f)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if kind := o.GetKind(); !strings.HasPrefix(kind, "Cluster") && kind != "CustomResourceDefinition" {
			o.SetNamespace(argoName)
		}
	}
	k, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: argoName}}
	if _, err := k.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := c.Apply(ctx, objects); err != nil {
		return err
	}
	return waitUntil(ctx, func(context.Context) (bool, error) { return discovery.IsResourceEnabled(k.Discovery(), argoRollouts) })
}

// freePorts returns two ports on which no process listens.
func freePorts() (one, other int, err error) {
	var ports [2]int
	for i := range ports {
		l, err := net.ListenTCP("tcp", nil)
		if err != nil {
			return 0, 0, err
		}
		defer func() { _ = l.Close() }() // only its number is needed
		address, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return 0, 0, errors.New("a listener has no port")
		}
		ports[i] = address.Port
	}
	return ports[0], ports[1], nil
}

func (argo) newWorkload() client.Object {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(argoRollouts.GroupVersion().WithKind("Rollout"))
	return o
}

func (a argo) newRelease() (client.Object, client.ObjectList) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(argoRollouts.GroupVersion().WithKind("RolloutList"))
	return a.newWorkload(), list
}

func (a argo) application(namespace, name string, replicas int) []client.Object {
	labels := map[string]any{appLabel: name}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"replicas": int64(replicas),
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "app", "image": versionImage(0)}}},
		},
		"strategy": map[string]any{"canary": map[string]any{"steps": a.canarySteps()}},
	}}}
	o.SetGroupVersionKind(a.newWorkload().GetObjectKind().GroupVersionKind())
	o.SetNamespace(namespace)
	o.SetName(name)
	return []client.Object{o}
}

// canarySteps returns a weight and a pause for each size below 100 %. After the last step Argo
// Rollouts completes the release without a further step, which would cost one more write.
func (a argo) canarySteps() []any {
	var steps []any
	for size := range strings.SplitSeq(a.steps, ",") {
		if weight, err := strconv.ParseInt(strings.TrimSuffix(size, "%"), 10, 32); err == nil && weight < 100 {
			steps = append(steps, map[string]any{"setWeight": weight}, map[string]any{"pause": map[string]any{}})
		}
	}
	return steps
}

// state ignores a status that is older than the spec.
func (argo) state(o client.Object) state {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return state{}
	}
	// Missing fields are zero.
	step, _, _ := unstructured.NestedInt64(u.Object, "status", "currentStepIndex")
	pauses, _, _ := unstructured.NestedSlice(u.Object, "status", "pauseConditions")
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	seen, _, _ := unstructured.NestedString(u.Object, "status", "observedGeneration")
	current := seen == strconv.FormatInt(u.GetGeneration(), 10)
	return state{step: int32(step), waits: current && len(pauses) > 0, healthy: current && phase == "Healthy"}
}

// approve sends the patch that the kubectl plugin of Argo Rollouts sends for a Rollout that waits at a step.
func (a argo) approve(ctx context.Context, b *bench, name string, _ int32) error {
	o := a.newWorkload()
	o.SetNamespace(releasedNamespace)
	o.SetName(name)
	return b.client.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"status":{"pauseConditions":null}}`)))
}
