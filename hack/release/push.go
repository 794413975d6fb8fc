// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/spf13/cobra"
)

func pushCommand() *cobra.Command {
	return &cobra.Command{
		Use: "push LAYOUT REFERENCE", Args: cobra.ExactArgs(2),
		Short: "Push an OCI layout of the image or the chart to a registry, with the credentials of docker login",
		RunE: func(cmd *cobra.Command, args []string) error {
			digest, err := push(cmd.Context(), args[0], args[1])
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), digest)
			}
			return err
		},
	}
}

// push pushes the one artifact of an OCI layout, and returns its reference by digest.
func push(ctx context.Context, dir, to string) (string, error) {
	ref, err := name.ParseReference(to)
	if err != nil {
		return "", fmt.Errorf("reading the reference: %w", err)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", dir, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", dir, err)
	}
	if len(manifest.Manifests) != 1 {
		return "", fmt.Errorf("%s has %d artifacts, not one", dir, len(manifest.Manifests))
	}
	artifact := manifest.Manifests[0]
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if artifact.MediaType.IsIndex() {
		image, err := index.ImageIndex(artifact.Digest)
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", dir, err)
		}
		err = remote.WriteIndex(ref, image, options...)
		if err != nil {
			return "", fmt.Errorf("pushing the image: %w", err)
		}
	} else {
		chart, err := index.Image(artifact.Digest)
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", dir, err)
		}
		if err := remote.Write(ref, chart, options...); err != nil {
			return "", fmt.Errorf("pushing the chart: %w", err)
		}
	}
	return ref.Context().Name() + "@" + artifact.Digest.String(), nil
}
