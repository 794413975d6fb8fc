// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/openkruise/kruise-rollout-api/client/clientset/versioned"
	"github.com/openkruise/kruise-rollout-api/rollouts/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// kruiseClient sends the requests of kubectl-kruise, with the typed client that kubectl-kruise uses.
type kruiseClient struct {
	*versioned.Clientset
	config          *rest.Config
	namespace, name string
	args            []string
}

// kruise returns a command. Like kubectl-kruise it uses the version of Rollouts that discovery
// prefers, and supports only v1beta1.
func kruise(do func(context.Context, *kruiseClient) error) func(context.Context, *rest.Config, []string) error {
	return func(ctx context.Context, config *rest.Config, args []string) error {
		if len(args) < 2 {
			return errors.New("the namespace or the name is missing")
		}
		client, err := versioned.NewForConfig(config)
		if err != nil {
			return err
		}
		groups, err := client.Discovery().ServerGroups()
		if err != nil {
			return err
		}
		for _, g := range groups.Groups {
			if g.Name == v1beta1.GroupVersion.Group && g.PreferredVersion.Version != v1beta1.GroupVersion.Version {
				return fmt.Errorf("discovery prefers %s", g.PreferredVersion.Version)
			}
		}
		return do(ctx, &kruiseClient{client, config, args[0], args[1], args[2:]})
	}
}

func (k *kruiseClient) get(ctx context.Context) (*v1beta1.Rollout, error) {
	return k.RolloutsV1beta1().Rollouts(k.namespace).Get(ctx, k.name, metav1.GetOptions{})
}

// patch sends the changes as a merge patch without a resourceVersion.
func (k *kruiseClient) patch(ctx context.Context, change func(*v1beta1.Rollout) error, subresources ...string) error {
	r, err := k.get(ctx)
	if err != nil {
		return err
	}
	before, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := change(r); err != nil {
		return err
	}
	after, err := json.Marshal(r)
	if err != nil {
		return err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, r)
	if err != nil {
		return err
	}
	out, err := k.RolloutsV1beta1().Rollouts(k.namespace).Patch(ctx, k.name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
	if err != nil {
		return fmt.Errorf("patching with %s: %w", patch, err)
	}
	fmt.Printf("patched with %s: %s\n", patch, out.Name)
	return nil
}

func approve(ctx context.Context, k *kruiseClient) error {
	return k.patch(ctx, func(r *v1beta1.Rollout) error {
		if s := r.Status.CanaryStatus; s == nil || s.CurrentStepState != v1beta1.CanaryStepStatePaused {
			return errors.New("the current step is not StepPaused")
		}
		r.Status.CanaryStatus.CurrentStepState = v1beta1.CanaryStepStateReady
		return nil
	}, "status")
}

func pause(paused bool) func(context.Context, *kruiseClient) error {
	return func(ctx context.Context, k *kruiseClient) error {
		return k.patch(ctx, func(r *v1beta1.Rollout) error {
			if r.Spec.Strategy.Paused == paused {
				return fmt.Errorf("spec.strategy.paused is already %t", paused)
			}
			r.Spec.Strategy.Paused = paused
			return nil
		})
	}
}

// rollback returns to an earlier step, as `rollout rollback --step` does.
func rollback(ctx context.Context, k *kruiseClient) error {
	if len(k.args) != 1 {
		return errors.New("the step is missing")
	}
	step, err := strconv.ParseInt(k.args[0], 10, 32)
	if err != nil {
		return err
	}
	return k.patch(ctx, func(r *v1beta1.Rollout) error {
		// kubectl-kruise reads this field, and not the one of the sub-status.
		if r.Status.CurrentStepIndex <= int32(step) {
			return fmt.Errorf("step %d is not before step %d", step, r.Status.CurrentStepIndex)
		}
		r.Status.CanaryStatus.NextStepIndex = int32(step)
		return nil
	}, "status")
}

// describe prints the fields of the Rollout and of its pods that `describe rollout` reads.
func describe(ctx context.Context, k *kruiseClient) error {
	r, err := k.get(ctx)
	if err != nil {
		return err
	}
	printStatus(r)
	client, err := kubernetes.NewForConfig(k.config)
	if err != nil {
		return err
	}
	hash := r.Status.CanaryStatus.PodTemplateHash
	if hash == "" {
		hash = r.Status.CanaryStatus.StableRevision
	}
	pods, err := client.CoreV1().Pods(k.namespace).List(ctx, metav1.ListOptions{LabelSelector: "pod-template-hash=" + hash})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		fmt.Printf("pod %s batch %q image %s\n", p.Status.Phase, p.Labels["rollouts.kruise.io/rollout-batch-id"], p.Spec.Containers[0].Image)
	}
	return nil
}

func printStatus(r *v1beta1.Rollout) {
	fmt.Printf("phase %s, observed %t, step %d %s, %s\n", r.Status.Phase, r.Status.ObservedGeneration == r.Generation,
		r.Status.CurrentStepIndex, r.Status.CurrentStepState, r.Status.Message)
	if c := r.Status.CanaryStatus; c != nil {
		fmt.Printf("canary step %d of %d, next %d, stable %s, update %s, pods %s\n", c.CurrentStepIndex,
			len(r.Spec.Strategy.GetSteps()), c.NextStepIndex, c.StableRevision, c.CanaryRevision, c.PodTemplateHash)
	}
}

// follow prints the status after each change, as `describe rollout -w` does, until the Rollout is Healthy.
func follow(ctx context.Context, k *kruiseClient) error {
	w, err := k.RolloutsV1beta1().Rollouts(k.namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + k.name})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		r, ok := e.Object.(*v1beta1.Rollout)
		if !ok {
			return fmt.Errorf("the watch returned a %T", e.Object)
		}
		printStatus(r)
		if r.Status.Phase == v1beta1.RolloutPhaseHealthy {
			return nil
		}
	}
	return errors.New("the watch ended")
}
