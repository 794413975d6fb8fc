// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
)

// server is a server that requests are sent to.
type server struct {
	client *http.Client
	host   string
}

func newServer(config *rest.Config) (*server, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return &server{client: client, host: config.Host}, nil
}

// answer is the answer to one request.
type answer struct {
	code     int
	body     map[string]any
	warnings []string
}

func (a *answer) failed() bool { return a.code >= http.StatusBadRequest }

// summary is the part of the code and the reason that must be equal in both answers.
func (a *answer) summary() string {
	if !a.failed() {
		return http.StatusText(a.code)
	}
	reason, _ := a.body["reason"].(string)
	return fmt.Sprintf("%d %s", a.code, reason)
}

func (a *answer) message() string {
	message, _ := a.body["message"].(string)
	return message
}

const jsonType = "application/json"

func (s *server) call(ctx context.Context, method, path, contentType, accept string, body []byte) (*answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.host+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("creating a request: %w", err)
	}
	request.Header.Set("User-Agent", "oracle/1")
	request.Header.Set("Accept", accept)
	if body != nil {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading an answer: %w", err)
	}
	a := &answer{code: response.StatusCode}
	// Numbers are compared as they are written: 1 differs from 1.0.
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&a.body); err != nil {
		a.body = map[string]any{"message": string(data)}
	}
	for _, w := range response.Header.Values("Warning") {
		a.warnings = append(a.warnings, strings.TrimPrefix(w, "299 - "))
	}
	slices.Sort(a.warnings)
	return a, nil
}

// must sends a request that must be answered with the code.
func (s *server) must(ctx context.Context, method, path string, body any, code int) error {
	a, err := s.write(ctx, method, path, jsonType, body)
	if err == nil && a.code != code {
		err = fmt.Errorf("%s %s: %d %s", method, path, a.code, a.message())
	}
	return err
}

// target is the verb of a request and the paths that it may be sent to.
type target struct {
	verb string
	// all is the path of the resource, and one the path of the object.
	all, one, query string
}

// parseTarget parses the key of a request.
func parseTarget(c *testCase, namespace, key string, fields map[string]any) target {
	verb, query, _ := strings.Cut(key, "?")
	verb, subresource, _ := strings.Cut(strings.TrimSpace(verb), " ")
	name := "web"
	if metadata, ok := c.complete(fields)["metadata"].(map[string]any); ok && verb != "merge" {
		if given, ok := metadata["name"].(string); ok {
			name = given
		}
	}
	if c.from == "corpus" {
		name = corpusName(c)
	}
	p := target{verb: verb, query: "?" + query, all: "/apis/" + group + "/" + c.Version + "/namespaces/" + namespace + "/" + c.Resource}
	p.one = p.all + "/" + name
	if subresource != "" {
		p.one += "/" + subresource
	}
	return p
}

// patchTypes are the verbs that send their body as a patch, by the type of the patch.
var patchTypes = map[string]string{
	"merge":     "application/merge-patch+json",
	"json":      "application/json-patch+json",
	"strategic": "application/strategic-merge-patch+json",
}

// send sends one request of a case, given by its key and its body.
func (s *server) send(ctx context.Context, c *testCase, namespace, key string, body any) (*answer, error) {
	const apply = "application/apply-patch+yaml"
	fields, _ := body.(map[string]any)
	p := parseTarget(c, namespace, key, fields)
	if contentType, ok := patchTypes[p.verb]; ok {
		return s.write(ctx, http.MethodPatch, p.one+p.query, contentType, body)
	}
	switch p.verb {
	case "create":
		return s.write(ctx, http.MethodPost, p.all+p.query, jsonType, c.complete(merged(c.Base, fields, false)))
	case "post":
		return s.write(ctx, http.MethodPost, p.all+p.query, jsonType, c.complete(fields))
	case "text":
		return s.call(ctx, http.MethodPost, p.all+p.query, "application/yaml", jsonType, []byte(fmt.Sprint(body)))
	case "get":
		return s.call(ctx, http.MethodGet, p.one+p.query, "", jsonType, nil)
	case "list":
		return s.call(ctx, http.MethodGet, p.all+p.query, "", jsonType, nil)
	case "table":
		return s.call(ctx, http.MethodGet, p.all+p.query, "", jsonType+";as=Table;v=v1;g=meta.k8s.io", nil)
	case "delete":
		return s.call(ctx, http.MethodDelete, p.one+p.query, "", jsonType, nil)
	case "put":
		return s.put(ctx, p, fields)
	case "apply":
		return s.write(ctx, http.MethodPatch, p.one+p.query+"&fieldManager=applier", apply, c.complete(merged(c.Base, fields, false)))
	case "sparse":
		return s.write(ctx, http.MethodPatch, p.one+p.query+"&fieldManager=other", apply, c.complete(fields))
	}
	return nil, fmt.Errorf("unknown verb %q", p.verb)
}

// put reads the stored object, merges the fields into it, and writes it.
func (s *server) put(ctx context.Context, p target, fields map[string]any) (*answer, error) {
	stored, err := s.call(ctx, http.MethodGet, strings.TrimSuffix(p.one, "/status"), "", jsonType, nil)
	if err != nil || stored.failed() {
		return stored, err
	}
	return s.write(ctx, http.MethodPut, p.one+p.query, jsonType, merged(stored.body, fields, false))
}

// corpusName returns the name of the object of a case that was made from a manifest.
func corpusName(c *testCase) string {
	object, _ := c.Do[0]["post"].(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return name
}

// write sends a body as JSON.
func (s *server) write(ctx context.Context, method, path, contentType string, body any) (*answer, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding a body: %w", err)
	}
	return s.call(ctx, method, path, contentType, jsonType, data)
}
