// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command release builds what a release publishes beside archives: the image, the chart as an OCI
// artifact, and bills of materials. It needs neither docker nor a registry, and the same input gives
// the same bytes. hack/image.sh and hack/dist.sh call it. It is a module of its own, so that the
// modules of registries and bills of materials are not those of Weir.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := &cobra.Command{Use: "release", Short: "Build what a release publishes", SilenceUsage: true}
	cmd.AddCommand(imageCommand(), chartCommand(), bomCommand(), pushCommand())
	if err := cmd.ExecuteContext(ctx); err != nil {
		os.Exit(1)
	}
}

// build names a build. All of it is in the annotations of OCI.
type build struct {
	version, revision string
	created           time.Time
}

// addFlags adds the flags of a build to a command.
func (b *build) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&b.version, "version", "", "the version")
	cmd.Flags().StringVar(&b.revision, "revision", "", "the commit")
	created := cmd.Flags().String("created", "", "the time of the commit, in seconds since 1970; all files have it")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		seconds, err := strconv.ParseInt(*created, 10, 64)
		if err != nil {
			return fmt.Errorf("--created: %w", err)
		}
		b.created = time.Unix(seconds, 0).UTC()
		if b.version == "" || b.revision == "" {
			return errors.New("--version and --revision are required")
		}
		return nil
	}
}

// annotations returns the annotations of OCI for the image or the chart.
func (b *build) annotations(title, description string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":         title,
		"org.opencontainers.image.description":   description,
		"org.opencontainers.image.version":       b.version,
		"org.opencontainers.image.revision":      b.revision,
		"org.opencontainers.image.created":       b.created.Format(time.RFC3339),
		"org.opencontainers.image.licenses":      "Apache-2.0",
		"org.opencontainers.image.vendor":        "The Weir Authors",
		"org.opencontainers.image.url":           "https://github.com/weir-rollouts/weir",
		"org.opencontainers.image.source":        "https://github.com/weir-rollouts/weir",
		"org.opencontainers.image.documentation": "https://github.com/weir-rollouts/weir/blob/" + b.revision + "/docs/install.md",
	}
}
