// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// TestBOM checks that the bill of materials of a program, which is this test, lists each module that Go
// has recorded in it, and is the same when it is written again.
func TestBOM(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var written [2][]byte
	for i := range written {
		file := filepath.Join(t.TempDir(), "bom.json")
		if err := writeBOM(&testBuild, program, file); err != nil {
			t.Fatal(err)
		}
		if written[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(written[0], written[1]) {
		t.Error("the second bill of materials differs from the first one")
	}
	bom := new(cyclonedx.BOM)
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(written[0]), cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	if bom.Metadata.Component.Version != "v1.2.3" || bom.Metadata.Timestamp != "2027-01-15T08:00:00Z" {
		t.Errorf("the version is %s, the time %s", bom.Metadata.Component.Version, bom.Metadata.Timestamp)
	}
	listed := map[string]string{}
	for _, component := range *bom.Components {
		listed[component.Name] = component.Version
	}
	if len(info.Deps) < 10 || listed["std"] != info.GoVersion {
		t.Errorf("%d modules are in the program; the standard library is listed as %q", len(info.Deps), listed["std"])
	}
	for _, module := range info.Deps {
		if listed[module.Path] != module.Version {
			t.Errorf("%s is listed as %q, want %s", module.Path, listed[module.Path], module.Version)
		}
	}
}

// TestBOMOfDependency checks that a program of another module keeps its version, by which scanners find
// its vulnerabilities. The program is Helm.
func TestBOMOfDependency(t *testing.T) {
	t.Parallel()
	program := filepath.Join("..", "..", "bin", "clients", "helm")
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bom.json")
	if err := writeBOM(&testBuild, program, file); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bom := new(cyclonedx.BOM)
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(data), cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	if got := bom.Metadata.Component; got.Version != info.Main.Version || got.Version == testBuild.version || !strings.HasPrefix(got.PackageURL, "pkg:golang/"+info.Main.Path+"@"+info.Main.Version) {
		t.Errorf("the component is %s, version %s; want %s %s", got.PackageURL, got.Version, info.Main.Path, info.Main.Version)
	}
}
