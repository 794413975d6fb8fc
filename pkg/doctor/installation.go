// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// DefaultNamespace is where the manifests install Weir. The chart may use another namespace.
const DefaultNamespace = "weir-system"

// applyAgain is the fix that restores any object of the installation.
const applyAgain = "apply the installation again, as docs/install.md says"

// Installation contains the objects of the manifests.
type Installation []*unstructured.Unstructured

// Form determines where the controllers run. Its value is the directory with the additional manifests of
// the form.
type Form string

// The forms.
const (
	OneProcess Form = "one-process"
	Apart      Form = "apart"
)

// FormOf returns the form in which weir-apiserver runs with the service account.
func FormOf(account string) Form {
	if account == serverName {
		return Apart
	}
	return OneProcess
}

// serverName and controller are names of Deployments, and of their service accounts.
const serverName, controllerName = "weir-apiserver", "weir-controller"

// manifestDirs are the directories of all forms: the objects that every cluster needs, and those that some
// clusters do not serve.
var manifestDirs = []string{"base", "policies"}

// ReadInstallation reads the manifests of a form, and sets the namespace of the installation.
func ReadInstallation(files fs.FS, form Form, namespace string) (Installation, error) {
	var all Installation
	for _, dir := range append(slices.Clone(manifestDirs), string(form)) {
		names, err := fs.Glob(files, dir+"/*.yaml")
		if err != nil {
			return nil, fmt.Errorf("looking for manifests: %w", err)
		}
		for _, name := range names {
			if path.Base(name) == "kustomization.yaml" {
				continue
			}
			objects, err := readManifest(files, name, namespace)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", name, err)
			}
			all = append(all, objects...)
		}
	}
	return all, nil
}

func readManifest(files fs.FS, name, namespace string) (Installation, error) {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	data = bytes.ReplaceAll(data, []byte(DefaultNamespace), []byte(namespace)) // as the chart sets it
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	var objects Installation
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Namespace returns the namespace of the installation.
func (i Installation) Namespace() string {
	for _, o := range i.OfKinds("APIService") {
		if namespace, _, _ := unstructured.NestedString(o.Object, "spec", "service", "namespace"); namespace != "" {
			return namespace
		}
	}
	return DefaultNamespace
}

// OfKinds returns the objects of the given kinds.
func (i Installation) OfKinds(kinds ...string) Installation {
	var found Installation
	for _, o := range i {
		if slices.Contains(kinds, o.GetKind()) {
			found = append(found, o)
		}
	}
	return found
}

// guardPrefix is the name prefix of the policies that limit Weir's own accounts.
const guardPrefix = "weir-guard-"

// Guards returns the policies that limit what Weir's accounts may write, with their bindings.
func (i Installation) Guards() Installation {
	return slices.DeleteFunc(i.OfKinds(policyKinds...), func(o *unstructured.Unstructured) bool { return !strings.HasPrefix(o.GetName(), guardPrefix) })
}

// HoldingPolicies returns the policies and bindings of the given kinds, without Guards. These
// policies hold workloads.
func (i Installation) HoldingPolicies(kinds ...string) Installation {
	return slices.DeleteFunc(i.OfKinds(kinds...), func(o *unstructured.Unstructured) bool { return strings.HasPrefix(o.GetName(), guardPrefix) })
}

// controllerDeployment returns the name of the Deployment in which the controllers run.
func (i Installation) controllerDeployment() string {
	if slices.ContainsFunc(i.OfKinds("Deployment"), func(o *unstructured.Unstructured) bool { return o.GetName() == controllerName }) {
		return controllerName
	}
	return serverName
}

// Grant is a role that is granted to a service account.
type Grant struct {
	// Binding is the kind and name of the binding.
	Binding string
	// Account is the name of a service account in Namespace.
	Account string
	// Namespace is the namespace in which the role is granted; empty for all namespaces.
	Namespace string
	// Role is the granted role. Rules are set only if Ours is true: the role belongs to the installation.
	Role  rbacv1.RoleRef
	Rules []rbacv1.PolicyRule
	Ours  bool
}

// Grants returns the roles that are granted to the service accounts of the installation.
func (i Installation) Grants() ([]Grant, error) {
	var grants []Grant
	for _, o := range i.OfKinds("ClusterRoleBinding", "RoleBinding") {
		// A ClusterRoleBinding has the fields of a RoleBinding, so it can be decoded as one.
		var binding rbacv1.RoleBinding
		if err := convertTo(o, &binding); err != nil {
			return nil, err
		}
		for _, s := range binding.Subjects {
			if s.Kind != rbacv1.ServiceAccountKind || s.Namespace != i.Namespace() {
				continue
			}
			g := Grant{Binding: o.GetKind() + " " + o.GetName(), Account: s.Name, Namespace: o.GetNamespace(), Role: binding.RoleRef}
			var err error
			if g.Rules, g.Ours, err = i.findRules(binding.RoleRef, o.GetNamespace()); err != nil {
				return nil, err
			}
			grants = append(grants, g)
		}
	}
	return grants, nil
}

func (i Installation) findRules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, bool, error) {
	for _, o := range i.OfKinds(ref.Kind) {
		if o.GetName() != ref.Name || ref.Kind == "Role" && o.GetNamespace() != namespace {
			continue
		}
		var role rbacv1.ClusterRole
		err := convertTo(o, &role)
		return role.Rules, true, err
	}
	return nil, false, nil
}

// Webhooks returns the webhook configurations of the installation.
func (i Installation) Webhooks() ([]admissionv1.MutatingWebhookConfiguration, error) {
	var all []admissionv1.MutatingWebhookConfiguration
	for _, o := range i.OfKinds("MutatingWebhookConfiguration") {
		var c admissionv1.MutatingWebhookConfiguration
		if err := convertTo(o, &c); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// convertTo converts an object to a typed one. It ignores unknown fields, so that a Role can be decoded as a
// ClusterRole.
func convertTo(o *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
		return fmt.Errorf("reading %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}
