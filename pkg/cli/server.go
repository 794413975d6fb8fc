// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	restclient "k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// apiPath is that of the version of the API.
const apiPath = "/apis/rollouts.kruise.io/v1beta1/"

// server is the API, in one namespace.
type server struct {
	rest      *restclient.RESTClient
	namespace string
}

func (a *app) connect() (*server, error) {
	namespace, _, err := a.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, metav1.Unversioned)
	config.GroupVersion, config.APIPath = &v1beta1.SchemeGroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := restclient.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &server{client, namespace}, nil
}

// config is how to reach the cluster, as kubectl finds it out.
func (a *app) config() (*restclient.Config, error) {
	config, err := a.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config = restclient.CopyConfig(config)
	config.UserAgent = "kubectl-weir/" + a.version
	config.WarningHandler = restclient.NewWarningWriter(a.ErrOut, restclient.WarningWriterOptions{Deduplicate: true})
	return config, nil
}

// answer is what the server has sent: as it is, and for a drawing.
type answer[T any] struct {
	raw []byte
	it  T
}

func decode[T any](raw []byte) (answer[T], error) {
	a := answer[T]{raw: raw}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return a, fmt.Errorf("reading the answer: %w", err)
	}
	harmless, err := json.Marshal(cleaned(value))
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(harmless, &a.it)
}

// cleaned has no text that changes the terminal.
func cleaned(value any) any {
	switch v := value.(type) {
	case string:
		return plain(v)
	case []any:
		for i := range v {
			v[i] = cleaned(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = cleaned(v[k])
		}
	}
	return value
}

// sent sends a request. An error has what the server has said.
func sent(ctx context.Context, r *restclient.Request) ([]byte, error) {
	result := r.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

// read reads a Rollout, or with sub what the server says of it.
func read[T any](ctx context.Context, s *server, name, sub string, params ...string) (answer[T], error) {
	r := s.rest.Get().Namespace(s.namespace).Resource("rollouts").Name(name)
	if sub != "" {
		r = r.SubResource(sub)
	}
	for i := 0; i+1 < len(params); i += 2 {
		r = r.Param(params[i], params[i+1])
	}
	raw, err := sent(ctx, r)
	if err != nil {
		return answer[T]{}, explain(err, sub)
	}
	return decode[T](raw)
}

// forecast asks what a change would do.
func (s *server) forecast(ctx context.Context, name string, spec v1beta1.PlanSpec) (answer[v1beta1.RolloutPlan], error) {
	body := &v1beta1.RolloutPlan{Spec: spec}
	body.APIVersion, body.Kind = v1beta1.SchemeGroupVersion.String(), "RolloutPlan"
	raw, err := sent(ctx, s.rest.Post().Namespace(s.namespace).Resource("rollouts").Name(name).SubResource("plan").Body(body))
	if err != nil {
		return answer[v1beta1.RolloutPlan]{}, explain(err, "plan")
	}
	return decode[v1beta1.RolloutPlan](raw)
}

// explain says what an older server lacks, and leaves other errors.
func explain(err error, sub string) error {
	if !unserved(err) {
		return err
	}
	return fmt.Errorf("the cluster does not serve rollouts/%s: Weir is not installed, or older than this plugin; try kubectl weir doctor: %w", sub, err)
}

// unserved reports whether the path, and not the Rollout, is not there.
func unserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// list reads the Rollouts that a selector of fields and one of labels select.
func (s *server) list(ctx context.Context, fieldSelector, labelSelector string) ([]v1beta1.Rollout, error) {
	raw, err := sent(ctx, s.rest.Get().Namespace(s.namespace).Resource("rollouts").
		Param("fieldSelector", fieldSelector).Param("labelSelector", labelSelector))
	if err != nil {
		return nil, explain(err, "")
	}
	list, err := decode[v1beta1.RolloutList](raw)
	return list.it.Items, err
}

// shortKinds are the short names of workloads.
var shortKinds = map[string]string{"deploy": "deployment", "sts": "statefulset", "ds": "daemonset", "clone": "cloneset", "ro": "rollout"}

// name finds the Rollout that an argument names: NAME, rollout/NAME or deployment/NAME.
func (s *server) name(ctx context.Context, arg string) (string, error) {
	kind, name, typed := strings.Cut(arg, "/")
	if !typed {
		return arg, nil
	}
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	kind = strings.TrimSuffix(kind, "s")
	if long := shortKinds[strings.ToLower(strings.SplitN(arg, "/", 2)[0])]; long != "" {
		kind = long
	}
	if kind == "rollout" || name == "" {
		return name, nil
	}
	found, err := s.list(ctx, fields.OneTermEqualSelector("spec.workloadRef.name", name).String(), "")
	if err != nil {
		return "", err
	}
	for i := range found {
		if strings.ToLower(found[i].Spec.WorkloadRef.Kind) == kind {
			return found[i].Name, nil
		}
	}
	return "", fmt.Errorf("no Rollout in namespace %s is about %s", s.namespace, arg)
}

// names are the Rollouts that arguments name, or that a selector of labels selects.
func (s *server) names(ctx context.Context, args []string, selector string) ([]string, error) {
	if (len(args) > 0) == (selector != "") {
		return nil, errors.New("name Rollouts, or select some with -l")
	}
	var names []string
	for _, arg := range args {
		name, err := s.name(ctx, arg)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	if selector == "" {
		return names, nil
	}
	found, err := s.list(ctx, "", selector)
	for i := range found {
		names = append(names, found[i].Name)
	}
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("no Rollout in namespace %s has the labels %s", s.namespace, selector)
	}
	return names, err
}
