// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// types shows a command, runs it, shows what it prints, and wants it to succeed.
func (s *story) types(ctx context.Context, who, line string) string {
	if s.err != nil {
		return ""
	}
	out, err := s.shell(ctx, who, line)
	if err != nil {
		s.fail("%q should have succeeded: %w", line, err)
	}
	return out
}

// isRefused shows a command that must fail, and with these words.
func (s *story) isRefused(ctx context.Context, who, line string, words ...string) {
	if s.err != nil {
		return
	}
	out, err := s.shell(ctx, who, line)
	if err == nil {
		s.fail("%q should have been refused, but succeeded", line)
	}
	for _, w := range words {
		s.expect(strings.Contains(out, w), "%q should have been refused with %q, but it printed: %s", line, w, out)
	}
}

func (s *story) shell(ctx context.Context, who, line string) (string, error) {
	s.out.typed(who, line)
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Env = s.env(who)
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	s.out.block(out.String())
	return out.String(), err
}

// env is that of a user who has sourced the cluster's env file.
func (s *story) env(who string) []string {
	return append(os.Environ(), "KUBECONFIG="+s.place.kubeconfig(who),
		"PATH="+s.place.path(), "api="+s.api)
}

// proxies starts kubectl proxy, which adds a person's credentials to what curl sends.
func (s *story) proxies(ctx context.Context, who string) {
	if s.err != nil {
		return
	}
	s.out.typed(who, "kubectl proxy --port=0 &")
	cmd := exec.CommandContext(ctx, s.place.bin+"/kubectl", "proxy", "--port=0")
	cmd.Env = s.env(who)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.fail("starting kubectl proxy: %w", err)
		return
	}
	s.proxy = cmd
	said, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		s.fail("kubectl proxy ended at once: %w", err)
		return
	}
	s.out.block(said)
	address := strings.TrimSpace(strings.TrimPrefix(said, "Starting to serve on "))
	s.api = "http://" + address + rolloutPath
	s.out.typed(who, "api="+s.api)
}

// posts sends a verb with curl, or without it where there is none.
func (s *story) posts(ctx context.Context, who, verb, body string) {
	data := ""
	if body != "" {
		data = " -d '" + body + "'"
	}
	line := fmt.Sprintf(`curl -s -o /dev/null -w '%%{http_code}\n' -X POST $api/%s%s`, verb, data)
	if _, err := exec.LookPath("curl"); err == nil {
		out := s.types(ctx, who, line)
		s.expect(strings.TrimSpace(out) == "201", "POST %s should have answered 201, but it answered %s", verb, out)
		return
	}
	if s.err != nil {
		return
	}
	s.out.typed(who, line)
	code, err := post(ctx, s.api+"/"+verb, body)
	if err != nil {
		s.fail("POST %s: %w", verb, err)
		return
	}
	s.out.block(strconv.Itoa(code))
	s.expect(code == http.StatusCreated, "POST %s should have answered 201, but it answered %d", verb, code)
}

func post(ctx context.Context, url, body string) (code int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, errors.Join(err, answer.Body.Close())
}

// close ends what the story has started.
func (s *story) close() {
	if s.proxy != nil {
		_ = s.proxy.Process.Kill() // it may be gone
		_ = s.proxy.Wait()         // it was killed
	}
}
