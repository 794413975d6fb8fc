// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/spf13/cobra"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	imageDescription = "Weir releases workloads of Kubernetes step by step. The image has weir-apiserver, weir-controller, weir-dashboard and etcd."
	user             = "65532:65532"
)

// programs are the files of the image, each in a layer of its own: a layer that did not change since
// the last version is not pulled again. The roots of authorities are a further layer.
var programs = []string{"etcd", "weir-dashboard", "weir-controller", "weir-apiserver"}

// imageOptions are the flags of the command image.
type imageOptions struct {
	build
	out, tag  string
	platforms []string
}

func imageCommand() *cobra.Command {
	o := &imageOptions{}
	cmd := &cobra.Command{
		Use: "image", Args: cobra.NoArgs,
		Short: "Build the image: an OCI layout of all platforms, and an archive for docker load of each",
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.run(cmd.OutOrStdout()) },
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&o.out, "out", "", "the directory for the OCI layout and the archives")
	cmd.Flags().StringVar(&o.tag, "tag", "", "the name of the image in the archives, such as weir:v0.2.0")
	cmd.Flags().StringArrayVar(&o.platforms, "platform", nil, "OS/ARCH=DIR, once for each platform; DIR has the programs")
	return cmd
}

// run writes the OCI layout OUT/weir-image-VERSION, its archive, and an archive for docker of each
// platform. It prints the digest of the index and of each image.
func (o *imageOptions) run(out io.Writer) error {
	if len(o.platforms) == 0 {
		return errors.New("--platform is required")
	}
	tag, err := name.NewTag(o.tag)
	if err != nil {
		return fmt.Errorf("--tag: %w", err)
	}
	base := filepath.Join(o.out, "weir-image-"+o.version)
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, flag := range o.platforms {
		platformName, dir, _ := strings.Cut(flag, "=")
		platform, err := v1.ParsePlatform(platformName)
		if err != nil {
			return fmt.Errorf("--platform: %w", err)
		}
		image, err := o.image(platform, dir)
		if err != nil {
			return fmt.Errorf("building the image for %s: %w", platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
		archive := base + "-" + strings.ReplaceAll(platformName, "/", "-") + ".tar"
		if err := tarball.WriteToFile(archive, tag, image); err != nil {
			return fmt.Errorf("writing the archive for docker: %w", err)
		}
		digest, err := image.Digest()
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s  %s  %s\n", digest, platform, archive)
	}
	index = mutate.Annotations(index, o.annotations("weir", imageDescription)).(v1.ImageIndex)
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if err := writeLayout(base, func(l layout.Path) error {
		return l.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": o.version}))
	}, o.created); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s  index  %s\n", digest, base)
	return os.WriteFile(base+".digest", []byte(digest.String()+"\n"), 0o644)
}

// image returns the image of one platform. Its programs are in dir.
func (o *imageOptions) image(platform *v1.Platform, dir string) (v1.Image, error) {
	roots, err := rootCertificates()
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: o.created}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant, Created: created,
		Config: v1.Config{
			User: user, WorkingDir: "/", Entrypoint: []string{"/weir-apiserver"},
			Env: []string{"PATH=/"}, Labels: o.annotations("weir", imageDescription),
		},
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	add := func(what string, files ...file) error {
		layer, err := o.layer(files...)
		if err != nil {
			return fmt.Errorf("making the layer of %s: %w", what, err)
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer: layer, History: v1.History{Created: created, CreatedBy: "hack/release", Comment: what},
		})
		return err
	}
	if err := add("authorities", file{"etc/", nil}, file{"etc/ssl/", nil}, file{"etc/ssl/certs/", nil}, file{"etc/ssl/certs/ca-certificates.crt", roots}); err != nil {
		return nil, err
	}
	for _, program := range programs {
		data, err := os.ReadFile(filepath.Join(dir, program))
		if err != nil {
			return nil, err
		}
		if err := add(program, file{program, data}); err != nil {
			return nil, err
		}
	}
	return mutate.Annotations(image, o.annotations("weir", imageDescription)).(v1.Image), nil
}

// A file is an entry of a layer. A directory has a name that ends in a slash.
type file struct {
	name string
	data []byte
}

// layer returns a layer with some files. Owner, mode and time do not depend on the machine that
// builds the image.
func (o *imageOptions) layer(files ...file) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range files {
		header := &tar.Header{Name: f.name, ModTime: o.created, Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Mode: 0o444, Size: int64(len(f.data))}
		switch {
		case strings.HasSuffix(f.name, "/"):
			header.Typeflag, header.Mode = tar.TypeDir, 0o755
		case slices.Contains(programs, f.name):
			header.Mode = 0o555
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
}

// rootCertificates returns the authorities that browsers trust, in PEM. A metrics server without an
// authority of its own needs them. They are those of Mozilla, in the version that go.sum pins. The
// format has no place for an authority that is trusted only for older certificates; such an authority
// is left out.
func rootCertificates() ([]byte, error) {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			return nil, fmt.Errorf("reading the authorities: %w", err)
		}
		fmt.Fprintf(&out, "# %s\n", certificate.Subject)
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, fmt.Errorf("writing the authorities: %w", err)
		}
	}
	return out.Bytes(), nil
}

// writeLayout writes an OCI layout into a directory, in place of one that is there, and as an archive.
func writeLayout(dir string, add func(layout.Path) error, created time.Time) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the OCI layout: %w", err)
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("writing the OCI layout: %w", err)
	}
	if err := add(path); err != nil {
		return fmt.Errorf("writing the OCI layout: %w", err)
	}
	if err := archive(dir, dir+".oci.tar", created); err != nil {
		return fmt.Errorf("writing the archive of the OCI layout: %w", err)
	}
	return nil
}

// archive writes all files of a directory, sorted, into a tar archive.
func archive(dir, to string, created time.Time) error {
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{
			Name: filepath.ToSlash(relative), ModTime: created, Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(data)),
		}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Close()
}
