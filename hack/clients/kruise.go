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

// kruiser sends what kubectl-kruise sends, with the typed client that it uses.
type kruiser struct {
	*versioned.Clientset
	config          *rest.Config
	namespace, name string
	args            []string
}

// kruise prepares a command. Like kubectl-kruise it takes the version of
// Rollouts that discovery prefers, and knows v1beta1 only.
func kruise(do func(context.Context, *kruiser) error) func(context.Context, *rest.Config, []string) error {
	return func(ctx context.Context, config *rest.Config, args []string) error {
		if len(args) < 2 {
			return errors.New("a namespace and a name are wanted")
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
		return do(ctx, &kruiser{client, config, args[0], args[1], args[2:]})
	}
}

func (k *kruiser) get(ctx context.Context) (*v1beta1.Rollout, error) {
	return k.RolloutsV1beta1().Rollouts(k.namespace).Get(ctx, k.name, metav1.GetOptions{})
}

// patch sends the difference that change makes, without a resourceVersion.
func (k *kruiser) patch(ctx context.Context, change func(*v1beta1.Rollout) error, subresources ...string) error {
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

func approve(ctx context.Context, k *kruiser) error {
	return k.patch(ctx, func(r *v1beta1.Rollout) error {
		if s := r.Status.CanaryStatus; s == nil || s.CurrentStepState != v1beta1.CanaryStepStatePaused {
			return errors.New("the current step is not StepPaused")
		}
		r.Status.CanaryStatus.CurrentStepState = v1beta1.CanaryStepStateReady
		return nil
	}, "status")
}

func pause(paused bool) func(context.Context, *kruiser) error {
	return func(ctx context.Context, k *kruiser) error {
		return k.patch(ctx, func(r *v1beta1.Rollout) error {
			if r.Spec.Strategy.Paused == paused {
				return errors.New("it is so already")
			}
			r.Spec.Strategy.Paused = paused
			return nil
		})
	}
}

// rollback goes back to an earlier step, as `rollout rollback --step` does.
func rollback(ctx context.Context, k *kruiser) error {
	if len(k.args) != 1 {
		return errors.New("a step is wanted")
	}
	step, err := strconv.ParseInt(k.args[0], 10, 32)
	if err != nil {
		return err
	}
	return k.patch(ctx, func(r *v1beta1.Rollout) error {
		// It looks here, not into the status of the strategy.
		if r.Status.CurrentStepIndex <= int32(step) {
			return fmt.Errorf("step %d is not before step %d", step, r.Status.CurrentStepIndex)
		}
		r.Status.CanaryStatus.NextStepIndex = int32(step)
		return nil
	}, "status")
}

// describe prints what `describe rollout` reads of the Rollout and its pods.
func describe(ctx context.Context, k *kruiser) error {
	r, err := k.get(ctx)
	if err != nil {
		return err
	}
	tell(r)
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

func tell(r *v1beta1.Rollout) {
	fmt.Printf("phase %s, observed %t, step %d %s, %s\n", r.Status.Phase, r.Status.ObservedGeneration == r.Generation,
		r.Status.CurrentStepIndex, r.Status.CurrentStepState, r.Status.Message)
	if c := r.Status.CanaryStatus; c != nil {
		fmt.Printf("canary step %d of %d, next %d, stable %s, update %s, pods %s\n", c.CurrentStepIndex,
			len(r.Spec.Strategy.GetSteps()), c.NextStepIndex, c.StableRevision, c.CanaryRevision, c.PodTemplateHash)
	}
}

// follow is `describe rollout -w`, until the Rollout is Healthy.
func follow(ctx context.Context, k *kruiser) error {
	w, err := k.RolloutsV1beta1().Rollouts(k.namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + k.name})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		r, ok := e.Object.(*v1beta1.Rollout)
		if !ok {
			return fmt.Errorf("got a %T", e.Object)
		}
		tell(r)
		if r.Status.Phase == v1beta1.RolloutPhaseHealthy {
			return nil
		}
	}
	return errors.New("the watch ended")
}
