// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/rollout"
)

// maxPeek is how much of a body is checked. A larger one is left to the generic server.
const maxPeek = 64 << 10

// checkVerb refuses an unknown verb, and a body that is not the verb's, with a message
// that says what to send instead: those of the generic server are about its inside.
// The reader is left at the start of the body.
func checkVerb(r *http.Request, body *bufio.Reader) error {
	info, _ := genericapirequest.RequestInfoFrom(r.Context())
	kind := rollout.BodyOf(info.Subresource)
	switch {
	case kind == "" && info.Subresource != "status":
		return unknownVerb(info)
	case kind == "" || !isJSON(r.Header):
		return nil
	}
	sent, err := body.Peek(maxPeek)
	if err != io.EOF {
		return nil // it is larger, or cannot be read
	}
	return checkBody(info.Subresource, kind, sent)
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
	return nil
}

func unknownVerb(info *genericapirequest.RequestInfo) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Details: &metav1.StatusDetails{Group: rollouts.GroupName, Kind: info.Resource, Name: info.Name},
		Message: fmt.Sprintf("rollouts.%s %q has no verb %q; there are %s", rollouts.GroupName, info.Name,
			rollouts.Clean(info.Subresource, rollouts.MaxUser), strings.Join(rollout.Verbs(), ", ")),
	}}
}

func isJSON(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return h.Get("Content-Type") == "" || err == nil && media == runtime.ContentTypeJSON
}
