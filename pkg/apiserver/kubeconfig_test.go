// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The commands for administrators find the cluster as kubectl does: without --kubeconfig, in $KUBECONFIG.
func TestCommandsReadKubeconfig(t *testing.T) {
	for name, command := range map[string]func() *cobra.Command{"doctor": newDoctor, "import": newImport, "uninstall": newUninstall} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Store(true)
				w.WriteHeader(http.StatusForbidden)
			}))
			defer server.Close()
			config := clientcmdapi.NewConfig()
			config.Clusters["here"] = &clientcmdapi.Cluster{Server: server.URL}
			config.Contexts["here"] = &clientcmdapi.Context{Cluster: "here"}
			config.CurrentContext = "here"
			file := filepath.Join(t.TempDir(), "config")
			if err := clientcmd.WriteToFile(*config, file); err != nil {
				t.Fatal(err)
			}
			t.Setenv("KUBECONFIG", file)
			cmd := command()
			cmd.SetArgs([]string{})
			cmd.SetOut(io.Discard)
			cmd.SetErr(io.Discard)
			cmd.SilenceUsage, cmd.SilenceErrors = true, true
			if err := cmd.ExecuteContext(t.Context()); err == nil {
				t.Error("the command succeeds, though everything is forbidden")
			}
			if !asked.Load() {
				t.Error("the server of $KUBECONFIG is not asked")
			}
		})
	}
}
