// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package helm runs Helm on the chart of this repository, for tests. make clients builds Helm from the
// module hack/helm.
package helm

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weir-rollouts/weir/test/cluster"
)

// root is the directory of the repository.
func root() string {
	_, file, _, _ := runtime.Caller(0) // always known to a program that is built from source
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Chart is the directory of the chart.
func Chart() string { return filepath.Join(root(), "charts", "weir") }

// Run runs Helm, and returns what it prints to standard output. The error contains what Helm prints to
// standard error.
func Run(ctx context.Context, args ...string) ([]byte, error) {
	var out, message bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(root(), "bin", "clients", "helm"), args...)
	cmd.Stdout, cmd.Stderr = &out, &message
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, message.String())
	}
	return out.Bytes(), nil
}

// Render renders the chart, and returns the objects.
func Render(ctx context.Context, flags ...string) ([]*unstructured.Unstructured, error) {
	out, err := Run(ctx, append([]string{"template", "weir", Chart(), "--kube-version=1.37.1"}, flags...)...)
	if err != nil {
		return nil, err
	}
	objects, err := cluster.Decode(bytes.NewReader(out))
	if err != nil {
		return nil, fmt.Errorf("reading what helm template %s prints: %w", strings.Join(flags, " "), err)
	}
	return objects, nil
}
