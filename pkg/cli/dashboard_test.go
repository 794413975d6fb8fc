// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
)

// Each context has its own address and secret, which lead only to its cluster.
func TestDashboards(t *testing.T) {
	t.Parallel()
	config := clientcmdapi.NewConfig()
	for _, name := range []string{"blue", "green"} {
		cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }))
		t.Cleanup(cluster.Close)
		config.Clusters[name] = &clientcmdapi.Cluster{Server: cluster.URL}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	command := func(contexts string) (io.Reader, func() error) {
		out, in := io.Pipe()
		c := NewCommand(genericiooptions.IOStreams{In: os.Stdin, Out: in, ErrOut: io.Discard}, clock.RealClock{}, "test")
		c.SetArgs([]string{"dashboard", "--kubeconfig", file, "--contexts", contexts})
		return out, func() error { return c.ExecuteContext(t.Context()) }
	}
	_, run := command("blue,red")
	if err := run(); err == nil || !strings.Contains(err.Error(), `"red" does not exist`) {
		t.Errorf("a context that is not there: %v", err)
	}
	out, run := command("blue,green")
	go func() { _ = run() }() // it ends with the test
	lines := bufio.NewScanner(out)
	addresses := map[string][]string{}
	for range 2 {
		lines.Scan()
		name, address, _ := strings.Cut(lines.Text(), " ")
		addresses[name] = strings.Split(address, "#secret=")
	}
	for at, want := range map[[2]string]string{{"blue", "blue"}: "200 blue", {"green", "green"}: "200 green", {"blue", "green"}: "401 ", {"green", "blue"}: "401 "} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(addresses[at[0]][0], "ui/")+"rollouts", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Weir-Secret", addresses[at[1]][1])
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%d %s", answer.StatusCode, body); !strings.HasPrefix(got, want) {
			t.Errorf("%s with the secret of %s: %s, want %s", at[0], at[1], got, want)
		}
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}
