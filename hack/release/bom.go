// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

func bomCommand() *cobra.Command {
	b := &build{}
	cmd := &cobra.Command{
		Use: "bom PROGRAM FILE", Args: cobra.ExactArgs(2),
		Short: "Write the bill of materials of a program, in the JSON format of CycloneDX",
		RunE:  func(_ *cobra.Command, args []string) error { return writeBOM(b, args[0], args[1]) },
	}
	b.addFlags(cmd)
	return cmd
}

// writeBOM lists the modules that Go has recorded in the program. These are exactly the modules whose
// code is in the program, so nothing has to be downloaded.
func writeBOM(b *build, program, to string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("reading %s: %w", program, err)
	}
	options := []bin.Option{bin.WithIncludeStdlib(true), bin.WithLogger(zerolog.Nop())}
	// A program of another module, which is etcd, has the version of that module.
	if info.Main.Version == "(devel)" {
		options = append(options, bin.WithVersionOverride(b.version))
	}
	generator, err := bin.NewGenerator(program, options...)
	if err != nil {
		return fmt.Errorf("reading %s: %w", program, err)
	}
	bom, err := generator.Generate()
	if err != nil {
		return fmt.Errorf("reading %s: %w", program, err)
	}
	// The number depends on the content, so that the same program has the same number.
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s %s %v", bom.Metadata.Component.PackageURL, b.revision, *bom.Metadata.Properties)).URN()
	bom.Metadata.Timestamp = b.created.Format(time.RFC3339)
	bom.Metadata.Component.Name = filepath.Base(program)
	bom.Metadata.Component.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}
	out, err := os.Create(to)
	if err != nil {
		return fmt.Errorf("writing the bill of materials: %w", err)
	}
	defer out.Close()
	encoder := cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return fmt.Errorf("writing the bill of materials: %w", err)
	}
	return out.Close()
}
