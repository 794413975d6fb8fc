// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// Directory is the directory of artifacts that is applied.
func (c *Cluster) Directory() string {
	name := "small"
	if c.replicated() {
		name = "ha"
	}
	if !c.opts.Apart {
		return name
	}
	apart := name + "-apart"
	if _, err := fs.Stat(c.opts.Artifacts, apart); err != nil {
		return name // a version without artifacts/small
	}
	return apart
}

// Installation returns the objects from which Weir is installed here.
func (c *Cluster) Installation(ctx context.Context) ([]*unstructured.Unstructured, error) {
	components, err := c.Components()
	if err != nil {
		return nil, err
	}
	return c.Render(ctx, c.Directory(), components...)
}

// Components returns the kustomize components that an installation needs for the version of the
// cluster.
func (c *Cluster) Components() ([]string, error) {
	served, err := c.ServesPolicies()
	if err != nil || served {
		return nil, err
	}
	return []string{"webhook-only"}, nil
}

// ServesPolicies reports whether kube-apiserver can hold workloads with policies.
func (c *Cluster) ServesPolicies() (bool, error) {
	client, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		return false, fmt.Errorf("making a client: %w", err)
	}
	policies := admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingadmissionpolicies")
	served, err := discovery.IsResourceEnabled(client, policies)
	if err != nil {
		return false, fmt.Errorf("asking for policies: %w", err)
	}
	return served, nil
}

// kindsOnlyChecked are kinds that run Weir's processes in a cluster. Here the processes run outside
// of the cluster, so these kinds are only checked with a dry run. Deployments, which the doctor
// reads, are created without pods.
var kindsOnlyChecked = []string{"StatefulSet", "PersistentVolumeClaim"}

// install applies the manifests as kubectl apply -k does, adapted to processes outside of the
// cluster, and keeps the arguments of these processes.
func (c *Cluster) install(ctx context.Context) error {
	objects, err := c.Installation(ctx)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		if err := c.keepArgs(object); err != nil {
			return fmt.Errorf("reading Deployment %s: %w", object.GetName(), err)
		}
	}
	return c.Apply(ctx, objects)
}

// Upgrade installs another version of Weir over the current one. Each process changes its version
// when it is restarted.
func (c *Cluster) Upgrade(ctx context.Context, bin string, manifests fs.FS) error {
	c.restarts.Lock()
	defer c.restarts.Unlock()
	c.opts.WeirBin, c.opts.Artifacts = bin, manifests
	return c.install(ctx)
}

// keepArgs stores the arguments and the service account of the process that a Deployment runs.
func (c *Cluster) keepArgs(object *unstructured.Unstructured) error {
	d := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, d, true); err != nil {
		return err
	}
	c.installed[d.Name], c.accounts[d.Name] = d.Spec.Template.Spec.Containers[0].Args, d.Spec.Template.Spec.ServiceAccountName
	return nil
}

// Render returns the output of kubectl kustomize for a directory of artifacts with components.
func (c *Cluster) Render(ctx context.Context, dir string, components ...string) ([]*unstructured.Unstructured, error) {
	files, err := os.MkdirTemp(c.opts.Dir, "artifacts-")
	if err != nil {
		return nil, fmt.Errorf("rendering artifacts/%s: %w", dir, err)
	}
	defer func() { _ = os.RemoveAll(files) }() // the directory is removed with the cluster at the latest
	if err := overlay(files, c.opts.Artifacts, dir, components); err != nil {
		return nil, fmt.Errorf("rendering artifacts/%s: %w", dir, err)
	}
	var out, message bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(c.opts.Bin, "kubectl"), "kustomize", filepath.Join(files, overlaid))
	cmd.Stdout, cmd.Stderr = &out, &message
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("rendering artifacts/%s: %w: %s", dir, err, message.Bytes())
	}
	objects, err := Decode(&out)
	if err != nil {
		return nil, fmt.Errorf("reading what artifacts/%s renders to: %w", dir, err)
	}
	return objects, nil
}

const overlaid = "overlay"

// overlay writes a kustomization next to the artifacts, as a user does.
func overlay(to string, files fs.FS, dir string, components []string) error {
	if err := os.CopyFS(to, files); err != nil {
		return err
	}
	k := map[string]any{"resources": []string{"../" + dir}}
	var paths []string
	for _, name := range components {
		paths = append(paths, "../"+name)
	}
	if len(paths) > 0 {
		k["components"] = paths
	}
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(to, overlaid), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, overlaid, "kustomization.yaml"), data, 0o644)
}

// Decode reads the objects of a YAML stream.
func Decode(from io.Reader) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(from, 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
}

// Apply applies rendered objects, adapted to processes outside of the cluster.
func (c *Cluster) Apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	return c.apply(ctx, objects, func(kind string) bool { return slices.Contains(kindsOnlyChecked, kind) })
}

// Check applies rendered objects as a dry run.
func (c *Cluster) Check(ctx context.Context, objects []*unstructured.Unstructured) error {
	return c.apply(ctx, objects, func(string) bool { return true })
}

// apply applies objects, and those of checked kinds as a dry run.
func (c *Cluster) apply(ctx context.Context, objects []*unstructured.Unstructured, checked func(kind string) bool) error {
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	for _, object := range objects {
		if err := c.adapt(object); err != nil {
			return fmt.Errorf("adapting %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		gvk := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return fmt.Errorf("finding the resource of %s: %w", gvk.Kind, err)
		}
		options := metav1.ApplyOptions{FieldManager: "weir-cluster", Force: true}
		if checked(gvk.Kind) {
			options.DryRun = []string{metav1.DryRunAll}
		}
		resource := client.Resource(mapping.Resource).Namespace(object.GetNamespace())
		if _, err := resource.Apply(ctx, object.GetName(), object, options); err != nil {
			return fmt.Errorf("applying %s %s: %w", gvk.Kind, object.GetName(), err)
		}
	}
	return nil
}
