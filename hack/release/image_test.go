// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var testBuild = build{version: "v1.2.3", revision: "0123456789abcdef0123456789abcdef01234567", created: time.Unix(1800000000, 0).UTC()}

// buildImage builds the image of two platforms from programs that are only texts.
func buildImage(t *testing.T) string {
	t.Helper()
	out, dirs := t.TempDir(), t.TempDir()
	o := imageOptions{build: testBuild, out: out, tag: "registry.example.com/weir:v1.2.3"}
	for _, arch := range []string{"amd64", "arm64"} {
		dir := filepath.Join(dirs, arch)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, program := range programs {
			if err := os.WriteFile(filepath.Join(dir, program), []byte(program+" for "+arch), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		o.platforms = append(o.platforms, "linux/"+arch+"="+dir)
	}
	if err := o.run(io.Discard); err != nil {
		t.Fatal(err)
	}
	return out
}

// readFiles returns the content of all files of a directory by their paths.
func readFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestReproducible checks that two builds in two directories give the same bytes in each file.
func TestReproducible(t *testing.T) {
	t.Parallel()
	first, second := readFiles(t, buildImage(t)), readFiles(t, buildImage(t))
	if len(first) < 10 || !slices.Equal(slices.Sorted(maps.Keys(first)), slices.Sorted(maps.Keys(second))) {
		t.Fatalf("files are %q and %q", slices.Sorted(maps.Keys(first)), slices.Sorted(maps.Keys(second)))
	}
	for name, content := range first {
		if second[name] != content {
			t.Errorf("%s differs", name)
		}
	}
}

// TestImage checks the image as docker, a registry and a kubelet see it.
func TestImage(t *testing.T) {
	t.Parallel()
	out := buildImage(t)
	base := filepath.Join(out, "weir-image-v1.2.3")
	index := readIndex(t, base)
	if err := validate.Index(index); err != nil {
		t.Errorf("the index is not valid: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	want := testBuild.annotations("weir", imageDescription)
	if !maps.Equal(manifest.Annotations, want) {
		t.Errorf("the index has the annotations %q, want %q", manifest.Annotations, want)
	}
	var platforms []string
	for _, entry := range manifest.Manifests {
		platforms = append(platforms, entry.Platform.String())
		image, err := index.Image(entry.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, entry.Platform)
		archived, err := tarball.ImageFromPath(base+"-"+strings.ReplaceAll(entry.Platform.String(), "/", "-")+".tar", nil)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigName()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := archived.ConfigName(); err != nil || got != config {
			t.Errorf("docker loads the config %s (%v), want %s", got, err, config)
		}
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		t.Errorf("the platforms are %q, want %q", platforms, want)
	}
}

// readIndex returns the one index of an OCI layout.
func readIndex(t *testing.T, dir string) v1.ImageIndex {
	t.Helper()
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("the layout has %d artifacts", len(manifest.Manifests))
	}
	index, err := all.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// checkImage checks the config and the files of an image: it runs as nobody, and has no shell.
func checkImage(t *testing.T, image v1.Image, platform *v1.Platform) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/weir-apiserver"}) || config.Config.Cmd != nil {
		t.Errorf("%s: user %s, entrypoint %q, command %q", platform, config.Config.User, config.Config.Entrypoint, config.Config.Cmd)
	}
	if config.OS+"/"+config.Architecture != platform.String() || !config.Created.Equal(testBuild.created) {
		t.Errorf("the config of %s is for %s/%s, created %s", platform, config.OS, config.Architecture, config.Created)
	}
	if want := testBuild.annotations("weir", imageDescription); !maps.Equal(config.Config.Labels, want) {
		t.Errorf("%s: the labels are %q, want %q", platform, config.Config.Labels, want)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(manifest.Annotations, config.Config.Labels) {
		t.Errorf("%s: the annotations are %q", platform, manifest.Annotations)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(content); ; {
			header, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, fmt.Sprintf("%s %o", header.Name, header.Mode))
			if header.Uid != 0 || header.Gid != 0 || header.Mode&0o222 != 0 && header.Typeflag != tar.TypeDir || !header.ModTime.Equal(testBuild.created) {
				t.Errorf("%s: %s belongs to %d:%d, has the mode %o and the time %s", platform, header.Name, header.Uid, header.Gid, header.Mode, header.ModTime)
			}
		}
	}
	want := []string{
		"etc/ 755", "etc/ssl/ 755", "etc/ssl/certs/ 755", "etc/ssl/certs/ca-certificates.crt 444",
		"etcd 555", "weir-dashboard 555", "weir-controller 555", "weir-apiserver 555",
	}
	if !slices.Equal(files, want) {
		t.Errorf("%s: the files are %q, want %q", platform, files, want)
	}
}

// TestRootCertificates checks that Go can read each authority of the image, and trusts it today.
func TestRootCertificates(t *testing.T) {
	t.Parallel()
	roots, err := rootCertificates()
	if err != nil {
		t.Fatal(err)
	}
	count := bytes.Count(roots, []byte("BEGIN CERTIFICATE"))
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(roots) || count < 80 {
		t.Errorf("there are %d authorities", count)
	}
	for _, known := range []string{"ISRG Root X1", "DigiCert Global Root G2", "Amazon Root CA 1", "GTS Root R1"} {
		if !bytes.Contains(roots, []byte("CN="+known)) {
			t.Errorf("%s is missing", known)
		}
	}
}

// TestPush checks that a registry has the image under the digest that was printed when it was built.
func TestPush(t *testing.T) {
	t.Parallel()
	out := buildImage(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/weir"
	pushed, err := push(t.Context(), filepath.Join(out, "weir-image-v1.2.3"), repository+":v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	digest, err := os.ReadFile(filepath.Join(out, "weir-image-v1.2.3.digest"))
	if err != nil {
		t.Fatal(err)
	}
	if want := repository + "@" + strings.TrimSpace(string(digest)); pushed != want {
		t.Errorf("pushed %s, want %s", pushed, want)
	}
	ref, err := name.ParseReference(pushed)
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		image, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(image); err != nil {
			t.Errorf("the image for %s in the registry is not valid: %v", arch, err)
		}
	}
}
