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

// again is what restores any object of the installation.
const again = "apply the installation again, as docs/install.md says"

// Installation is what the manifests contain.
type Installation []*unstructured.Unstructured

// Form is where the controllers run. It is the directory with what only that form has.
type Form string

// The forms.
const (
	OneProcess Form = "one-process"
	Apart      Form = "apart"
)

// FormOf is the form in which weir-apiserver runs as an account.
func FormOf(account string) Form {
	if account == server {
		return Apart
	}
	return OneProcess
}

// server and controller are the names of Deployments, and of their accounts.
const server, controller = "weir-apiserver", "weir-controller"

// manifests are the directories with what every installation has, and with what
// some clusters cannot have.
var manifests = []string{"base", "policies"}

// ReadInstallation reads the manifests of a form, for an installation in a namespace.
func ReadInstallation(files fs.FS, form Form, namespace string) (Installation, error) {
	var all Installation
	for _, dir := range append(slices.Clone(manifests), string(form)) {
		names, err := fs.Glob(files, dir+"/*.yaml")
		if err != nil {
			return nil, fmt.Errorf("looking for manifests: %w", err)
		}
		for _, name := range names {
			if path.Base(name) == "kustomization.yaml" {
				continue
			}
			objects, err := read(files, name, namespace)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", name, err)
			}
			all = append(all, objects...)
		}
	}
	return all, nil
}

func read(files fs.FS, name, namespace string) (Installation, error) {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	data = bytes.ReplaceAll(data, []byte(DefaultNamespace), []byte(namespace)) // as the chart does
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

// Namespace is where the installation is.
func (i Installation) Namespace() string {
	for _, o := range i.Of("APIService") {
		if namespace, _, _ := unstructured.NestedString(o.Object, "spec", "service", "namespace"); namespace != "" {
			return namespace
		}
	}
	return DefaultNamespace
}

// Of are the objects of the kinds.
func (i Installation) Of(kinds ...string) Installation {
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
	return slices.DeleteFunc(i.Of(policyKinds...), func(o *unstructured.Unstructured) bool { return !strings.HasPrefix(o.GetName(), guardPrefix) })
}

// HoldingPolicies returns the policies and bindings of the given kinds, without Guards. These
// policies hold workloads.
func (i Installation) HoldingPolicies(kinds ...string) Installation {
	return slices.DeleteFunc(i.Of(kinds...), func(o *unstructured.Unstructured) bool { return strings.HasPrefix(o.GetName(), guardPrefix) })
}

// controllers is the Deployment whose process they run in.
func (i Installation) controllers() string {
	if slices.ContainsFunc(i.Of("Deployment"), func(o *unstructured.Unstructured) bool { return o.GetName() == controller }) {
		return controller
	}
	return server
}

// Grant lets a service account do something.
type Grant struct {
	// Binding is the kind and name of what grants.
	Binding string
	// Account is the name of a service account in Namespace.
	Account string
	// Namespace is where it is granted; empty for everywhere.
	Namespace string
	// Role is what is granted. Its rules are unknown if it is not ours.
	Role  rbacv1.RoleRef
	Rules []rbacv1.PolicyRule
	Ours  bool
}

// Grants are what the service accounts of the installation are granted.
func (i Installation) Grants() ([]Grant, error) {
	var grants []Grant
	for _, o := range i.Of("ClusterRoleBinding", "RoleBinding") {
		// A ClusterRoleBinding has the same fields.
		var binding rbacv1.RoleBinding
		if err := typed(o, &binding); err != nil {
			return nil, err
		}
		for _, s := range binding.Subjects {
			if s.Kind != rbacv1.ServiceAccountKind || s.Namespace != i.Namespace() {
				continue
			}
			g := Grant{Binding: o.GetKind() + " " + o.GetName(), Account: s.Name, Namespace: o.GetNamespace(), Role: binding.RoleRef}
			var err error
			if g.Rules, g.Ours, err = i.rules(binding.RoleRef, o.GetNamespace()); err != nil {
				return nil, err
			}
			grants = append(grants, g)
		}
	}
	return grants, nil
}

func (i Installation) rules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, bool, error) {
	for _, o := range i.Of(ref.Kind) {
		if o.GetName() != ref.Name || ref.Kind == "Role" && o.GetNamespace() != namespace {
			continue
		}
		var role rbacv1.ClusterRole
		err := typed(o, &role)
		return role.Rules, true, err
	}
	return nil, false, nil
}

// Webhooks are the configurations of the installation.
func (i Installation) Webhooks() ([]admissionv1.MutatingWebhookConfiguration, error) {
	var all []admissionv1.MutatingWebhookConfiguration
	for _, o := range i.Of("MutatingWebhookConfiguration") {
		var c admissionv1.MutatingWebhookConfiguration
		if err := typed(o, &c); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// typed reads an object leniently: a Role is a ClusterRole with a namespace.
func typed(o *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
		return fmt.Errorf("reading %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}
