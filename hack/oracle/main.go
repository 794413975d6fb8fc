// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command oracle compares Weir's answers with those of OpenKruise's CRDs.
//
//	oracle -crds DIR [-corpus DIR] [-run REGEXP] [-v]
//
// It starts a control plane with Weir and one with the CRDs, sends the same requests to both, and
// prints each difference. known.go lists the intended differences with their reasons, as
// docs/compatibility.md does. Any other difference is an error.
//
// The CRDs come without OpenKruise's webhooks. Without the conversion webhook an object can only
// be compared in the version in which it was written. The cases of each version therefore run
// with CRDs that store this version. A request that only the validating webhook would refuse is a
// known difference.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/weir-rollouts/weir/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("oracle", flag.ContinueOnError)
	crds := flags.String("crds", "", "directory of the CRDs")
	corpus := flags.String("corpus", "", "directory of further manifests")
	only := flags.String("run", "", "regular expression of the cases to run")
	verbose := flags.Bool("v", false, "print each known difference, too")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if *crds == "" {
		return errors.New("-crds is missing; name the directory of OpenKruise's CRDs")
	}
	filter, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("reading -run: %w", err)
	}
	cases, err := loadCases(*corpus)
	if err != nil {
		return err
	}
	r := &report{out: out, verbose: *verbose, complete: *only == "" && *corpus != "", counts: map[string]int{}}
	weir, stop, err := startWeir(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		if err := compareVersion(ctx, version, cases, filter, *crds, weir, r); err != nil {
			return err
		}
	}
	return r.finish()
}

// compareVersion runs the cases of a version.
func compareVersion(ctx context.Context, version string, cases []testCase, filter *regexp.Regexp, dir string, weir *server, r *report) (err error) {
	crds, stop, err := startCRDs(ctx, dir, version)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for i := range cases {
		c := &cases[i]
		if c.Version != version || !filter.MatchString(c.name()) {
			continue
		}
		r.cases++
		if err := compare(ctx, c, crds, weir, r); err != nil {
			return fmt.Errorf("running %s: %w", c.name(), err)
		}
	}
	return nil
}

// startWeir starts a control plane with Weir. No controller runs, so that objects change only by
// requests.
func startWeir(ctx context.Context) (*server, func() error, error) {
	c, err := cluster.Start(ctx, cluster.Options{Nodes: 1, Weir: true})
	if err != nil {
		return nil, nil, err
	}
	s, err := newServer(c.Config())
	if err == nil {
		err = c.Kill(cluster.WeirController)
	}
	if err != nil {
		return nil, nil, errors.Join(err, c.Stop())
	}
	return s, c.Stop, nil
}

// startCRDs starts a control plane with the CRDs of a directory. The CRDs store the version.
func startCRDs(ctx context.Context, dir, version string) (*server, func() error, error) {
	c, err := cluster.Start(ctx, cluster.Options{Nodes: 1})
	if err != nil {
		return nil, nil, err
	}
	s, err := newServer(c.Config())
	if err == nil {
		err = installCRDs(ctx, c, s, dir, version)
	}
	if err != nil {
		return nil, nil, errors.Join(err, c.Stop())
	}
	return s, c.Stop, nil
}

// installCRDs applies the CRDs of the group, and waits until all their versions are served. The
// directory may have other CRDs, too.
func installCRDs(ctx context.Context, c *cluster.Cluster, s *server, dir, version string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return fmt.Errorf("listing CRDs: %w", err)
	}
	found := false
	for _, path := range paths {
		objects, err := readObjects(path)
		if err != nil {
			return err
		}
		for _, object := range objects {
			crd := &unstructured.Unstructured{Object: object}
			if g, _, _ := unstructured.NestedString(object, "spec", "group"); g != group || crd.GetKind() != "CustomResourceDefinition" {
				continue
			}
			found = true
			versions, err := setStorageVersion(crd, version)
			if err != nil {
				return fmt.Errorf("reading %s: %w", path, err)
			}
			if err := c.Apply(ctx, []*unstructured.Unstructured{crd}); err != nil {
				return err
			}
			plural, _, _ := unstructured.NestedString(object, "spec", "names", "plural")
			for _, v := range versions {
				if err := s.waitServed(ctx, "/apis/"+group+"/"+v+"/"+plural); err != nil {
					return fmt.Errorf("waiting for %s %s: %w", v, plural, err)
				}
			}
		}
	}
	if !found {
		return fmt.Errorf("there is no CRD of %s in %s", group, dir)
	}
	return nil
}

// setStorageVersion makes a CRD store a version and convert without a webhook. A CRD with one
// version stores this one. It returns the versions of the CRD.
func setStorageVersion(crd *unstructured.Unstructured, version string) ([]string, error) {
	unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
	unstructured.RemoveNestedField(crd.Object, "status")
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range versions {
		name, _ := entry.(map[string]any)["name"].(string)
		names = append(names, name)
		entry.(map[string]any)["storage"] = len(versions) == 1 || name == version
	}
	return names, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")
}

// waitServed waits until a path is served.
func (s *server) waitServed(ctx context.Context, path string) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = s.must(ctx, http.MethodGet, path, nil, http.StatusOK)
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}
