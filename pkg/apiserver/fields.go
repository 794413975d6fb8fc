// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/rollout"
)

// maxCheckedBody is the maximum size of a body whose fields are checked. The generic server decodes larger ones,
// with errors of its own.
const maxCheckedBody = 1 << 20

// resourceKinds are the kinds of the resources that users write.
var resourceKinds = map[string]string{
	"rollouts": "Rollout", "batchreleases": "BatchRelease", "trafficroutings": "TrafficRouting",
	"checks": "Check", "clusterchecks": "ClusterCheck", "metricsources": "MetricSource",
}

// fieldCheck checks the fields of what users write before the generic server decodes them. It refuses nothing that the
// generic server would accept. Its errors name the field and the form that is right. The errors of the decoder name
// types of Go, and those of server-side apply differ from those of the other requests.
type fieldCheck struct {
	scheme *runtime.Scheme
	// controller is the user name of weir-controller, whose writes are not checked.
	controller string
}

// checkRequest returns an error about the fields of a request. The body stays readable. Fields that are unknown and
// that the generic server drops get a warning, if the user may have misspelled them.
func (c fieldCheck) checkRequest(r *http.Request) error {
	info, ok := genericapirequest.RequestInfoFrom(r.Context())
	if !ok || !info.IsResourceRequest || !isWrite(r.Method) || c.isController(r) {
		return nil
	}
	kind := c.kindOf(info)
	if !c.scheme.Recognizes(kind) {
		return nil // not a kind that users write
	}
	object, err := c.scheme.New(kind)
	if err != nil {
		return err
	}
	sent, ok := peekBody(r)
	if !ok {
		return nil
	}
	found, ok := checkFields(object, kind, mediaType(r.Header), sent)
	if !ok {
		return nil
	}
	if len(found.WrongTypes) > 0 {
		return wrongTypes(info, kind.Kind, found.WrongTypes)
	}
	return judgeUnknown(r, info, kind.Kind, found.Unknown)
}

func isWrite(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

func (c fieldCheck) isController(r *http.Request) bool {
	user, ok := genericapirequest.UserFrom(r.Context())
	return ok && user.GetName() == c.controller
}

// kindOf returns the kind of the body of a request.
func (c fieldCheck) kindOf(info *genericapirequest.RequestInfo) schema.GroupVersionKind {
	version := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	if info.Subresource != "" && info.Subresource != "status" {
		return v1beta1.SchemeGroupVersion.WithKind(rollout.BodyKind(info.Subresource)) // in both versions
	}
	return version.WithKind(resourceKinds[info.Resource])
}

// peekBody returns the body and makes the request readable again. It returns false if the body is too large.
func peekBody(r *http.Request) ([]byte, bool) {
	sent, err := io.ReadAll(io.LimitReader(r.Body, maxCheckedBody))
	rest := io.MultiReader(bytes.NewReader(sent), r.Body)
	if err != nil {
		rest = io.MultiReader(bytes.NewReader(sent), failedReader{err})
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{rest, r.Body}
	return sent, err == nil && len(sent) < maxCheckedBody
}

// failedReader returns the error with which a body could not be read.
type failedReader struct{ err error }

func (f failedReader) Read([]byte) (int, error) { return 0, f.err }

// checkFields checks the fields of a body. It returns false for a body that the generic server decodes in another way.
func checkFields(of runtime.Object, kind schema.GroupVersionKind, media string, sent []byte) (found validation.FieldErrors, ok bool) {
	switch media {
	case runtime.ContentTypeYAML, string(types.ApplyYAMLPatchType):
		var err error
		if sent, err = yaml.YAMLToJSON(sent); err != nil {
			return found, false
		}
	case runtime.ContentTypeJSON, string(types.MergePatchType), string(types.StrategicMergePatchType):
	case string(types.JSONPatchType):
		var operations any
		if utiljson.Unmarshal(sent, &operations) != nil {
			return found, false
		}
		return validation.CheckJSONPatch(of, operations), true
	default:
		return found, false
	}
	var object map[string]any
	if utiljson.Unmarshal(sent, &object) != nil || isOther(object, kind) {
		return found, false
	}
	return validation.CheckFields(of, object), true
}

// isOther reports whether the body names another kind or version, in which it is decoded.
func isOther(object map[string]any, kind schema.GroupVersionKind) bool {
	version, named := object["apiVersion"], object["kind"]
	return version != nil && version != kind.GroupVersion().String() || named != nil && named != kind.Kind
}

// wrongTypes is the error for values of a wrong type.
func wrongTypes(info *genericapirequest.RequestInfo, kind string, errs field.ErrorList) error {
	err := apierrors.NewInvalid(schema.GroupKind{Group: info.APIGroup, Kind: kind}, info.Name, errs)
	err.ErrStatus.Code, err.ErrStatus.Reason = http.StatusBadRequest, metav1.StatusReasonBadRequest
	err.ErrStatus.Message = errs.ToAggregate().Error()
	return err
}

// judgeUnknown refuses unknown fields if the user asked for strict validation, or if the request is an apply, which
// always fails for them. Otherwise it warns about a field that may be misspelled: the generic server drops the field.
func judgeUnknown(r *http.Request, info *genericapirequest.RequestInfo, kind string, unknown []validation.UnknownField) error {
	strict := r.URL.Query().Get("fieldValidation") == metav1.FieldValidationStrict
	isApply := mediaType(r.Header) == string(types.ApplyYAMLPatchType)
	if len(unknown) == 0 {
		return nil
	}
	var errs field.ErrorList
	var texts []string
	for _, u := range unknown {
		text := u.String()
		texts = append(texts, text)
		errs = append(errs, field.Forbidden(u.Path, text))
		if !strict && !isApply && strings.HasPrefix(u.Hint, "did you mean") && r.URL.Query().Get("fieldValidation") != metav1.FieldValidationIgnore {
			warning.AddWarning(r.Context(), "", text)
		}
	}
	switch {
	case !strict && !isApply:
		return nil
	case r.Method == http.MethodPatch && !isApply: // as the generic server answers patches
		return apierrors.NewInvalid(schema.GroupKind{Group: info.APIGroup, Kind: kind}, info.Name, errs)
	default:
		return apierrors.NewBadRequest("strict decoding error: " + strings.Join(texts, ", "))
	}
}
