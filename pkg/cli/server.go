// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/json"
	restclient "k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/cli/draw"
)

// apiPath is the URL path of the API version.
const apiPath = "/apis/rollouts.kruise.io/v1beta1/"

// server is a client of the API for one namespace.
type server struct {
	rest      *restclient.RESTClient
	namespace string
}

// target is a Rollout on the server.
type target struct {
	*server
	name string
}

func (a *app) connect() (*server, error) {
	namespace, _, err := a.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	config, err := a.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1beta1.AddToScheme(scheme), metav1.AddMetaToScheme(scheme)); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, metav1.Unversioned)
	config.GroupVersion, config.APIPath = &v1beta1.SchemeGroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := restclient.RESTClientFor(config)
	return &server{client, namespace}, err
}

// openTarget connects, and finds the Rollout that an argument names.
func (a *app) openTarget(ctx context.Context, arg string) (*target, error) {
	s, err := a.connect()
	if err != nil {
		return nil, err
	}
	return s.find(ctx, arg)
}

// response is a response of the server: unchanged, and decoded without control characters for drawings.
type response[T any] struct {
	raw   []byte
	value T
}

func decode[T any](raw []byte) (a response[T], err error) {
	a.raw = raw
	var value any
	if err = json.Unmarshal(raw, &value); err != nil {
		return a, fmt.Errorf("reading the response: %w", err)
	}
	harmless, err := json.Marshal(draw.Clean(value))
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(harmless, &a.value)
}

// send sends a request and returns the response. An error contains the server's message.
func send(ctx context.Context, r *restclient.Request) ([]byte, error) {
	result := r.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

// fetch sends a request about a subresource and decodes the response.
func fetch[T any](ctx context.Context, r *restclient.Request, sub string) (response[T], error) {
	raw, err := send(ctx, r)
	if err != nil {
		return response[T]{}, explainError(err, sub)
	}
	return decode[T](raw)
}

// read reads a Rollout, or one of its subresources.
func read[T any](ctx context.Context, t *target, sub string) (response[T], error) {
	r := t.rest.Get().Namespace(t.namespace).Resource("rollouts").Name(t.name)
	if sub != "" {
		r = r.SubResource(sub)
	}
	return fetch[T](ctx, r, sub)
}

// requestPlan requests the plan of a change.
func (t *target) requestPlan(ctx context.Context, spec v1beta1.PlanSpec) (response[v1beta1.RolloutPlan], error) {
	body := &v1beta1.RolloutPlan{Spec: spec}
	body.APIVersion, body.Kind = v1beta1.SchemeGroupVersion.String(), "RolloutPlan"
	r := t.rest.Post().Namespace(t.namespace).Resource("rollouts").Name(t.name).SubResource("plan").Body(body)
	return fetch[v1beta1.RolloutPlan](ctx, r, "plan")
}

// explainError replaces an error about a missing path by one about an older server.
func explainError(err error, sub string) error {
	if !isUnserved(err) {
		return err
	}
	return fmt.Errorf("the cluster does not serve rollouts/%s: Weir is not installed, or older than this plugin; try kubectl weir doctor: %w", sub, err)
}

// errorText returns the text of an error. If no server has answered, the text contains the address.
func errorText(err error) string {
	lost, isLost := errors.AsType[*url.Error](err)
	if !isLost && apierrors.IsServiceUnavailable(err) {
		return draw.Plain(fmt.Sprintf("Weir's API server does not answer (%s); find the cause with: kubectl weir doctor, or weir-apiserver doctor", err))
	}
	if !isLost {
		return draw.Plain(err.Error())
	}
	address, _ := url.Parse(lost.URL) // always valid: a request was sent to it
	cause := lost.Err
	if op, ok := errors.AsType[*net.OpError](cause); ok {
		cause = op.Err
	}
	if address.Host == "localhost:8080" {
		return "no cluster is configured: set KUBECONFIG, or use --kubeconfig"
	}
	return draw.Plain(fmt.Sprintf("no answer from %s (%s): check --context", address.Host, cause))
}

// isUnserved reports whether the server does not serve the path, although the Rollout may exist.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// isLost reports whether the request may be repeated: its result is unknown, or the server is overloaded.
func isLost(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= 500 || status.Status().Code == 429
}

// listRollouts reads the Rollouts that a parameter selects.
func (s *server) listRollouts(ctx context.Context, parameter, value string) ([]v1beta1.Rollout, error) {
	list, err := fetch[v1beta1.RolloutList](ctx, s.rest.Get().Namespace(s.namespace).Resource("rollouts").Param(parameter, value), "")
	return list.value.Items, err
}

// shortKinds maps short names of workloads to their kinds.
var shortKinds = map[string]string{"deploy": "deployment", "sts": "statefulset", "ds": "daemonset", "clone": "cloneset", "ro": "rollout"}

// find finds the Rollout that an argument names: NAME, rollout/NAME or deployment/NAME.
func (s *server) find(ctx context.Context, arg string) (*target, error) {
	word, name, typed := strings.Cut(arg, "/")
	if !typed {
		return &target{s, arg}, nil
	}
	word, _, _ = strings.Cut(strings.ToLower(word), ".")
	kind := cmp.Or(shortKinds[word], strings.TrimSuffix(word, "s"))
	if kind == "rollout" || name == "" {
		return &target{s, name}, nil
	}
	found, err := s.listRollouts(ctx, "fieldSelector", fields.OneTermEqualSelector("spec.workloadRef.name", name).String())
	if err != nil {
		return nil, err
	}
	for i := range found {
		if strings.ToLower(found[i].Spec.WorkloadRef.Kind) == kind {
			return &target{s, found[i].Name}, nil
		}
	}
	return nil, fmt.Errorf("no Rollout in namespace %s controls %s", s.namespace, arg)
}

// findAll finds the Rollouts that arguments name, or that labels select.
func (s *server) findAll(ctx context.Context, args []string, selector string) ([]*target, error) {
	if (len(args) > 0) == (selector != "") {
		return nil, errors.New("missing NAME: name Rollouts, or select them with -l")
	}
	if _, err := labels.Parse(selector); err != nil {
		return nil, fmt.Errorf("--selector %q: %w", selector, err)
	}
	var all []*target
	for _, arg := range args {
		t, err := s.find(ctx, arg)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	if selector == "" {
		return all, nil
	}
	found, err := s.listRollouts(ctx, "labelSelector", selector)
	for i := range found {
		all = append(all, &target{s, found[i].Name})
	}
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("no Rollout in namespace %s matches the labels %s", s.namespace, selector)
	}
	return all, err
}
