// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/rollout"
)

// maxPeek is the maximum size of a body that is checked. The generic server checks larger ones.
const maxPeek = 64 << 10

// checkVerb refuses an unknown verb, and a body of another kind, with a message that tells the client what
// to send instead. The messages of the generic server describe its implementation. The reader stays at the
// start of the body.
func checkVerb(r *http.Request, body *bufio.Reader) error {
	info, _ := genericapirequest.RequestInfoFrom(r.Context())
	kind := rollout.BodyKind(info.Subresource)
	switch {
	case kind == "" && info.Subresource != "status":
		return unknownVerb(info)
	case kind == "":
		return nil
	}
	if isDecision(r) {
		if err := checkQuery(info.Subresource, r.URL.Query()); err != nil {
			return err
		}
	}
	sent, err := body.Peek(maxPeek)
	if err != io.EOF {
		return nil // the body is larger than maxPeek, or cannot be read
	}
	switch mediaType(r.Header) {
	case runtime.ContentTypeJSON:
		return checkBody(info.Subresource, kind, sent)
	case runtime.ContentTypeYAML:
		if converted, err := yaml.YAMLToJSON(sent); err == nil {
			return checkExpect(decodeFields(converted))
		}
	}
	return nil // the generic server decodes other media types
}

// queryFields are the query parameters that verbs read.
var queryFields = []string{"dryRun", "fieldManager", "fieldValidation", "pretty", "timeout"}

// checkQuery refuses query parameters that belong into the body. The verb would ignore them.
func checkQuery(verb string, query url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(queryFields, name) {
			return apierrors.NewBadRequest(fmt.Sprintf(`%q is not read from the query of %s, which may have %s; send other fields in the body, such as {"expect": {"step": 1}}`,
				rollouts.Clean(name, rollouts.MaxUser), verb, strings.Join(queryFields, ", ")))
		}
	}
	return nil
}

// withStrictValidation makes the generic server refuse a body with unknown or repeated fields. A client that misspells
// expect would otherwise decide without an expectation.
func withStrictValidation(u *url.URL) *url.URL {
	query, next := u.Query(), *u
	query.Set("fieldValidation", metav1.FieldValidationStrict)
	next.RawQuery = query.Encode()
	return &next
}

func decodeFields(sent []byte) (fields map[string]json.RawMessage) {
	if utiljson.Unmarshal(sent, &fields) != nil {
		return nil
	}
	return fields
}

// checkExpect refuses an empty expectation, and one with an empty field: a script may have used a variable
// that was not set.
func checkExpect(body map[string]json.RawMessage) error {
	sent, found := body["expect"]
	if !found {
		return nil
	}
	empty := func(v json.RawMessage) bool {
		return slices.Contains([]string{"null", `""`, "{}"}, string(bytes.TrimSpace(v)))
	}
	fields := decodeFields(sent)
	if empty(sent) || fields != nil && len(fields) == 0 {
		return apierrors.NewBadRequest(rollout.EmptyExpect)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if empty(fields[name]) {
			return apierrors.NewBadRequest(fmt.Sprintf("expect.%s is empty; give it the value that the Rollout's status has, or leave it out", rollouts.Clean(name, rollouts.MaxUser)))
		}
	}
	return nil
}

func checkBody(verb, kind string, sent []byte) error {
	var fields map[string]json.RawMessage
	if utiljson.Unmarshal(sent, &fields) != nil || fields == nil {
		return apierrors.NewBadRequest(fmt.Sprintf(`the body of %s is not a JSON object; leave it out, or send one such as {"reason": "…"}`, verb))
	}
	var named string
	if utiljson.Unmarshal(fields["kind"], &named) == nil && named != "" && named != kind {
		return apierrors.NewBadRequest(fmt.Sprintf("the body of %s is of kind %q; send a %s of %s, or leave out kind and apiVersion",
			verb, rollouts.Clean(named, rollouts.MaxUser), kind, v1beta1.SchemeGroupVersion))
	}
	return checkExpect(fields)
}

func unknownVerb(info *genericapirequest.RequestInfo) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Details: &metav1.StatusDetails{Group: rollouts.GroupName, Kind: info.Resource, Name: info.Name},
		Message: fmt.Sprintf("rollouts.%s %q has no verb %q; there are %s", rollouts.GroupName, info.Name,
			rollouts.Clean(info.Subresource, rollouts.MaxUser), strings.Join(rollout.VerbNames(), ", ")),
	}}
}

// mediaType returns the media type of a body; JSON if the request does not specify one.
func mediaType(h http.Header) string {
	if h.Get("Content-Type") == "" {
		return runtime.ContentTypeJSON
	}
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return media
}
