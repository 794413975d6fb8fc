// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/store"
	"github.com/weir-rollouts/weir/test/cluster"
)

// system is what releases applications.
type system interface {
	// start starts a control plane and the system beside it.
	start(ctx context.Context, p *place) error
	// processes are the names of those that are its own.
	processes() []string
	// application is all that one consists of.
	application(namespace, name string, replicas int) []client.Object
	// workload is an empty object of the kind whose template is changed.
	workload() client.Object
	// release is an empty object of the kind that has the state of a release, and
	// an empty list of them.
	release() (client.Object, client.ObjectList)
	state(o client.Object) state
	approve(ctx context.Context, b *bench, name string, step int32) error
}

// state is that of one release.
type state struct {
	step    int32
	paused  bool
	healthy bool
}

// peers are the systems that Weir is compared with, by -peer.
var peers = map[string]func(options) system{
	"argo": func(o options) system { return argo{o} },
}

func peerNames() string { return strings.Join(slices.Sorted(maps.Keys(peers)), ", ") }

// weir is the system that is measured.
type weir struct{ options }

func (w weir) start(ctx context.Context, p *place) error {
	options := cluster.Options{Weir: true, Apart: w.place.apart}
	if p.profiles != "" || p.profiling {
		options.WeirApiserverArgs, options.WeirControllerArgs = []string{"--profiling"}, []string{"--profiling"}
	}
	if p.heap != "" {
		options.WeirEnv = []string{"GOMEMLIMIT=" + p.heap}
	}
	if err := p.plane(ctx, options); err != nil {
		return err
	}
	server := rest.CopyConfig(p.config)
	server.Host = "https://" + p.own.Address(cluster.WeirAPIServer)
	server.TLSClientConfig.CAFile, server.TLSClientConfig.CAData, server.TLSClientConfig.Insecure = "", nil, true
	p.servers = append(p.servers, server)
	p.controller = p.own.Metrics()
	address, err := store.EndpointIn(p.own.WeirData())
	if err != nil {
		return err
	}
	p.stores = append(p.stores, entry{"weir", address})
	return p.count(w.processes()...)
}

func (w weir) processes() []string {
	if w.place.apart {
		return []string{cluster.WeirAPIServer, cluster.WeirController}
	}
	return []string{cluster.WeirAPIServer}
}

func (weir) workload() client.Object { return &appsv1.Deployment{} }

func (weir) release() (client.Object, client.ObjectList) {
	return &v1beta1.Rollout{}, &v1beta1.RolloutList{}
}

func (weir) state(o client.Object) state {
	r, ok := o.(*v1beta1.Rollout)
	if !ok {
		return state{}
	}
	s := r.Status
	return state{
		step:    s.CurrentStepIndex,
		paused:  s.Phase == v1beta1.PhaseProgressing && s.CurrentStepState == v1beta1.StepPaused,
		healthy: s.Phase == v1beta1.PhaseHealthy,
	}
}

func (w weir) approve(ctx context.Context, b *bench, name string, step int32) error {
	if w.options.approve == "status" {
		status := "canaryStatus"
		if w.style == "bluegreen" {
			status = "blueGreenStatus"
		}
		body := fmt.Appendf(nil, `{"status":{%q:{"currentStepState":"StepReady"}}}`, status)
		o := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: busy, Name: name}}
		return b.client.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, body))
	}
	code, said, err := b.post(ctx, busy, name, "promote", fmt.Sprintf(`{"expect":{"step":%d}}`, step))
	if err == nil && code != http.StatusCreated {
		err = fmt.Errorf("%d: %s", code, said)
	}
	return err
}

// unheld are Deployments that no system releases: the floor.
type unheld struct{}

func (unheld) start(ctx context.Context, p *place) error { return p.plane(ctx, cluster.Options{}) }

func (unheld) processes() []string { return nil }

func (unheld) application(namespace, name string, replicas int) []client.Object {
	return []client.Object{deployment(namespace, name, int32(replicas))}
}

func (unheld) workload() client.Object { return &appsv1.Deployment{} }

func (unheld) release() (client.Object, client.ObjectList) {
	return &appsv1.Deployment{}, &appsv1.DeploymentList{}
}

// state is healthy when a Deployment is complete, as a Rollout would be then.
func (unheld) state(o client.Object) state {
	d, ok := o.(*appsv1.Deployment)
	return state{healthy: ok && whole(d)}
}

func (unheld) approve(_ context.Context, _ *bench, name string, _ int32) error {
	return fmt.Errorf("%s has no steps", name)
}
