// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Media types of the charts of Helm.
const (
	chartConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

func chartCommand() *cobra.Command {
	b := &build{}
	cmd := &cobra.Command{
		Use: "chart ARCHIVE DIRECTORY", Args: cobra.ExactArgs(2),
		Short: "Write the archive of a chart as an OCI layout, from which helm pull works once it is pushed",
		RunE: func(cmd *cobra.Command, args []string) error {
			digest, err := writeChart(b, args[0], args[1])
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%s  chart  %s\n", digest, args[1])
			}
			return err
		},
	}
	b.addFlags(cmd)
	return cmd
}

// writeChart writes the OCI layout of a chart.
func writeChart(b *build, archivePath, dir string) (v1.Hash, error) {
	content, err := os.ReadFile(archivePath)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("reading the chart: %w", err)
	}
	metadata, err := chartMetadata(content)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("reading %s: %w", archivePath, err)
	}
	config, err := json.Marshal(metadata)
	if err != nil {
		return v1.Hash{}, err
	}
	version, _ := metadata["version"].(string)
	description, _ := metadata["description"].(string)
	annotations := b.annotations("weir", description)
	annotations["org.opencontainers.image.version"] = version
	manifest := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Annotations: annotations,
		Config: descriptor(config, chartConfig), Layers: []v1.Descriptor{descriptor(content, chartContent)},
	}
	raw, err := json.Marshal(manifest)
	if err != nil {
		return v1.Hash{}, err
	}
	artifact := descriptor(raw, types.OCIManifestSchema1)
	artifact.Annotations = map[string]string{"org.opencontainers.image.ref.name": version}
	return artifact.Digest, writeLayout(dir, func(l layout.Path) error {
		for _, blob := range [][]byte{config, content, raw} {
			if err := l.WriteBlob(descriptor(blob, "").Digest, io.NopCloser(bytes.NewReader(blob))); err != nil {
				return err
			}
		}
		return l.AppendDescriptor(artifact)
	}, b.created)
}

// descriptor describes a blob.
func descriptor(blob []byte, mediaType types.MediaType) v1.Descriptor {
	return v1.Descriptor{
		MediaType: mediaType, Size: int64(len(blob)),
		Digest: v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", sha256.Sum256(blob))},
	}
}

// chartMetadata returns the content of Chart.yaml.
func chartMetadata(content []byte) (map[string]any, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("there is no Chart.yaml")
		}
		if err != nil {
			return nil, err
		}
		if filepath.Base(header.Name) != "Chart.yaml" {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		var metadata map[string]any
		return metadata, yaml.Unmarshal(data, &metadata)
	}
}
