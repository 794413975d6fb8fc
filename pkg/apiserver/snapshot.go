// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/internal/disk"
	"github.com/weir-rollouts/weir/pkg/store"
)

const (
	aboutSnapshot = `Save a snapshot of the store of weir-apiserver in FILE, or write it to the
standard output if FILE is -. The server may run, or not. An existing FILE is
replaced only when the new one is complete. The file has the format of etcd.

  weir-apiserver snapshot weir.db
  kubectl -n weir-system exec deploy/weir-apiserver -- \
      /weir-apiserver snapshot - --data-dir /var/lib/weir/data >weir.db
  weir-apiserver snapshot weir.db --etcd-servers https://etcd-0:2379 --etcd-cafile ca.crt \
      --etcd-certfile client.crt --etcd-keyfile client.key`
	aboutRestore = `Restore a snapshot into a new data directory of weir-apiserver. The snapshot is
FILE, or the standard input if FILE is -. The server must not run, and the
directory must have no data. Every object is as it was, including its uid.
Resource versions continue above the old ones, so clients list and watch again.

  weir-apiserver restore weir.db --data-dir /var/lib/weir

An external etcd is restored with etcdutl: see docs/data.md.`
)

// newSnapshot returns the command that makes a snapshot.
func newSnapshot() *cobra.Command {
	var remote store.Remote
	dir := defaultDataDir
	cmd := &cobra.Command{
		Use: "snapshot FILE", Short: "save a snapshot of the store", Long: aboutSnapshot, Args: requireOneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			content, err := writeOutput(cmd, args[0], func(out io.Writer) (store.Content, error) {
				if len(remote.Servers) > 0 {
					return remote.Snapshot(cmd.Context(), storagePrefix, out)
				}
				return store.SnapshotDir(cmd.Context(), dir, storagePrefix, out)
			})
			if err != nil {
				return fmt.Errorf("making a snapshot: %w", err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "saved %s\n", content) // the standard output may be the file
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "data-dir", dir, "directory of the embedded etcd")
	addEtcdFlags(f, &remote, "the etcd to save instead of the embedded one")
	return withSubcommandHelp(cmd)
}

// addEtcdFlags adds the flags for the address and credentials of an etcd.
func addEtcdFlags(f *pflag.FlagSet, r *store.Remote, usage string) {
	f.StringSliceVar(&r.Servers, "etcd-servers", nil, usage)
	f.StringVar(&r.CAFile, "etcd-cafile", "", "certificate authority of that etcd")
	f.StringVar(&r.CertFile, "etcd-certfile", "", "client certificate for that etcd")
	f.StringVar(&r.KeyFile, "etcd-keyfile", "", "private key of the client certificate")
}

// newRestore returns the command that restores a snapshot.
func newRestore() *cobra.Command {
	dir := defaultDataDir
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "restore a snapshot into a new data directory", Long: aboutRestore, Args: requireOneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			in := cmd.InOrStdin()
			if name := args[0]; name != "-" {
				file, err := os.Open(name)
				if err != nil {
					return err
				}
				defer file.Close()
				in = file
			}
			content, err := store.Restore(in, dir, storagePrefix, clock.RealClock{}.Now())
			if err != nil {
				return fmt.Errorf("restoring %s: %w", args[0], err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "restored %s; start weir-apiserver with --data-dir %s\n", content, dir)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", dir, "directory to make")
	return withSubcommandHelp(cmd)
}

// writeOutput writes a file, or the standard output if the name is "-".
func writeOutput(cmd *cobra.Command, name string, write func(io.Writer) (store.Content, error)) (content store.Content, err error) {
	if name == "-" {
		return write(cmd.OutOrStdout())
	}
	err = disk.Replace(name, func(out io.Writer) error {
		content, err = write(out)
		return err
	})
	return content, err
}

func requireOneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes one FILE, or -, and not %q", cmd.CommandPath(), strings.Join(args, " "))
	}
	return nil
}

// withSubcommandHelp replaces the server's help by one for the subcommand.
func withSubcommandHelp(cmd *cobra.Command) *cobra.Command {
	cmd.SilenceUsage = true
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\nUsage:\n  %s\n\nFlags:\n%s", cmd.Long, cmd.UseLine(), cmd.LocalFlags().FlagUsagesWrapped(helpWidth))
	})
	return cmd
}
