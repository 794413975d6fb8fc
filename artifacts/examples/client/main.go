// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command client shows how a program releases with Weir: it creates a Rollout
// unless there is one, follows it, and promotes each step that waits, until the
// release is through. Replace the function approve by your own judgement.
//
//	go run ./artifacts/examples/client --kubeconfig ~/.kube/config --namespace default --deployment web
//
// Then change the Deployment. The program needs get, list, watch and create of
// rollouts, and create of rollouts/promote.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/generated/clientset/versioned"
	"github.com/weir-rollouts/weir/pkg/generated/informers/externalversions"
	listers "github.com/weir-rollouts/weir/pkg/generated/listers/rollouts/v1beta1"
)

// retryFor is how long a promotion is tried again while the server is away.
const retryFor = 30 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	flag.StringVar(&rules.ExplicitPath, "kubeconfig", "", "how to reach the server; else as kubectl does")
	namespace := flag.String("namespace", "default", "namespace of the Deployment")
	deployment := flag.String("deployment", "web", "Deployment to release; its Rollout has the same name")
	flag.Parse()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err == nil {
		err = run(ctx, os.Stdout, config, *namespace, *deployment)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, config *rest.Config, namespace, name string) error {
	clientset, err := versioned.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	rollouts := clientset.RolloutsV1beta1().Rollouts(namespace)
	_, err = rollouts.Create(ctx, newRollout(name), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the rollout: %w", err)
	}

	// One informer for one Rollout: the server does the filtering.
	factory := externalversions.NewSharedInformerFactoryWithOptions(clientset, 0, externalversions.WithNamespace(namespace),
		externalversions.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
		}))
	informer := factory.Rollouts().V1beta1().Rollouts()
	changed, err := changes(informer.Informer())
	if err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	fmt.Fprintf(out, "watching rollout %s/%s\n", namespace, name)
	follower := &follower{out: out, promoter: rollouts, lister: informer.Lister().Rollouts(namespace), name: name}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			if through, err := follower.look(ctx); through || err != nil {
				return err
			}
		}
	}
}

// changes receives when something changed. Only the newest state matters, so
// changes that come faster than they are looked at are one.
func changes(informer cache.SharedIndexInformer) (<-chan struct{}, error) {
	changed := make(chan struct{}, 1)
	tell := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { tell() }, UpdateFunc: func(any, any) { tell() }, DeleteFunc: func(any) { tell() },
	})
	if err != nil {
		return nil, fmt.Errorf("watching the rollout: %w", err)
	}
	return changed, nil
}

// promoter is the part of the typed client that releases.
type promoter interface {
	Promote(ctx context.Context, name string, body *v1beta1.PromoteOptions, opts metav1.CreateOptions) (*v1beta1.Rollout, error)
}

// follower goes with one Rollout from step to step.
type follower struct {
	out      io.Writer
	promoter promoter
	lister   listers.RolloutNamespaceLister
	name     string
	// releasing reports whether a release was seen in progress.
	releasing bool
	// promoted is the last pause that was approved. The informer may show it once more.
	promoted string
}

// look acts on the Rollout as it is now, and tells whether the release is through.
func (f *follower) look(ctx context.Context) (bool, error) {
	r, err := f.lister.Get(f.name)
	if err != nil {
		return false, fmt.Errorf("reading the rollout: %w", err)
	}
	switch progress := r.Status.Canary; {
	case r.Status.Phase == v1beta1.PhaseProgressing && progress != nil:
		f.releasing = true
		if progress.State == v1beta1.StepPaused && progress.LastUpdateTime != nil && approve(r) {
			return false, f.promote(ctx, r)
		}
	case r.Status.Phase == v1beta1.PhaseHealthy && f.releasing:
		fmt.Fprintf(f.out, "healthy: %s\n", r.Status.Message)
		return true, nil
	}
	return false, nil
}

// approve is where a program looks at its metrics.
func approve(*v1beta1.Rollout) bool { return true }

// promote approves the step that was seen, and no other.
func (f *follower) promote(ctx context.Context, seen *v1beta1.Rollout) error {
	progress := seen.Status.Canary
	// The same for every attempt to approve this pause, so that an answer that was
	// lost does no harm: the second attempt changes nothing.
	id := fmt.Sprintf("step-%d-since-%d", progress.CurrentStepIndex, progress.LastUpdateTime.Unix())
	if id == f.promoted {
		return nil
	}
	body := &v1beta1.PromoteOptions{DecisionOptions: v1beta1.DecisionOptions{
		Reason: "approved by the example", RequestID: id,
		// What was judged. If the Rollout has moved on since, nothing is approved.
		Expect: &v1beta1.Expectation{
			UID: seen.UID, Step: &progress.CurrentStepIndex, Revision: progress.CanaryRevision, Plan: progress.RolloutHash,
		},
	}}
	var last error
	err := wait.PollUntilContextTimeout(ctx, time.Second, retryFor, true, func(ctx context.Context) (bool, error) {
		_, last = f.promoter.Promote(ctx, f.name, body, metav1.CreateOptions{})
		switch {
		case last == nil:
			f.promoted = id
			fmt.Fprintf(f.out, "promoted step %d of %s\n", progress.CurrentStepIndex, progress.CanaryRevision)
			return true, nil
		case apierrors.IsConflict(last):
			// Never try again blindly: look at what there is now, and judge that.
			fmt.Fprintf(f.out, "not promoted: %v\n", last)
			return true, nil
		case apierrors.IsForbidden(last) || apierrors.IsNotFound(last) || apierrors.IsInvalid(last):
			return false, last
		}
		return false, nil // the server is away or busy
	})
	if err != nil {
		return fmt.Errorf("promoting step %d: %w", progress.CurrentStepIndex, last)
	}
	return nil
}

// newRollout releases a Deployment in three steps, each of which waits.
func newRollout(name string) *v1beta1.Rollout {
	step := func(replicas string) v1beta1.Step {
		size := intstr.FromString(replicas)
		return v1beta1.Step{Replicas: &size}
	}
	return &v1beta1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta1.RolloutSpec{
			WorkloadRef: v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			Strategy: v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{
				Release: v1beta1.Release{Steps: []v1beta1.Step{step("20%"), step("50%"), step("100%")}},
			}},
		},
	}
}
