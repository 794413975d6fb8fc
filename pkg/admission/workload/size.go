// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/json"
)

// Limits for one workload. Some JSON of a few bytes takes a kilobyte when it is decoded. Real workloads
// stay far below these limits.
const (
	// maxParts limits the sum of containers, volumes, claims, owner references and managed fields.
	maxParts = 512
	// maxElements limits the elements of all lists of the workload, and maxKeys the fields.
	maxElements, maxKeys = 10_000, 40_000
)

// workloadParts counts the lists of a workload whose elements are large when decoded. managedFieldsFilter
// has removed the managed fields of kube-apiserver's reviews; managed fields with a different spelling of
// the path count here.
type workloadParts struct {
	Metadata struct {
		ManagedFields   elementCount `json:"managedFields"`
		OwnerReferences elementCount `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Template struct {
			Spec struct {
				Containers          elementCount `json:"containers"`
				InitContainers      elementCount `json:"initContainers"`
				EphemeralContainers elementCount `json:"ephemeralContainers"`
				Volumes             elementCount `json:"volumes"`
			} `json:"spec"`
		} `json:"template"`
		VolumeClaimTemplates elementCount `json:"volumeClaimTemplates"`
	} `json:"spec"`
}

// elementCount counts the elements of lists without decoding them. If a key occurs twice, the elements of
// both lists count, because the decoder decodes both.
type elementCount int

// UnmarshalJSON implements json.Unmarshaler.
func (c *elementCount) UnmarshalJSON(data []byte) error {
	*c += elementCount(measureJSON(data, 1).elements)
	return nil
}

// checkSize returns an error if decoding the workload would take far more memory than its JSON.
func checkSize(raw []byte) error {
	if m := measureJSON(raw, 0); m.elements > maxElements || m.keys > maxKeys {
		return fmt.Errorf("it has %d elements of lists and %d fields, and may have %d and %d", m.elements, m.keys, maxElements, maxKeys)
	}
	var o workloadParts
	if err := json.Unmarshal(raw, &o); err != nil {
		return errors.New("it is no workload")
	}
	pod := o.Spec.Template.Spec
	parts := o.Metadata.ManagedFields + o.Metadata.OwnerReferences + pod.Containers + pod.InitContainers + pod.EphemeralContainers +
		pod.Volumes + o.Spec.VolumeClaimTemplates
	if parts > maxParts {
		return fmt.Errorf("its containers, volumes, claims, owners and managed fields are %d, and may be %d", parts, maxParts)
	}
	return nil
}

// jsonSize counts the list elements and the keys of a JSON value.
type jsonSize struct{ elements, keys int }

// measureJSON counts list elements and keys without decoding values. maxDepth limits the depth up to which
// list elements count; 0 means no limit. The JSON must be well formed.
func measureJSON(data []byte, maxDepth int) jsonSize {
	s := sizeScanner{maxDepth: maxDepth}
	quoted := false
	for i := 0; i < len(data); i++ {
		switch b := data[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
			s.countElement()
		case !quoted:
			s.readByte(b)
		}
	}
	return s.jsonSize
}

// sizeScanner is the state of measureJSON: the open lists and objects, and whether the next value is a list
// element that is not counted yet.
type sizeScanner struct {
	jsonSize
	maxDepth      int
	openBrackets  []byte
	awaitsElement bool
}

// readByte processes one byte outside of strings.
func (s *sizeScanner) readByte(b byte) {
	switch b {
	case ' ', '\n', '\t', '\r':
	case '[', '{':
		s.countElement()
		s.openBrackets, s.awaitsElement = append(s.openBrackets, b), b == '['
	case ']', '}':
		s.openBrackets, s.awaitsElement = s.openBrackets[:max(len(s.openBrackets)-1, 0)], false
	case ',':
		s.awaitsElement = len(s.openBrackets) > 0 && s.openBrackets[len(s.openBrackets)-1] == '['
	case ':':
		s.keys++
	default:
		s.countElement()
	}
}

// countElement counts a list element at its first byte.
func (s *sizeScanner) countElement() {
	if s.awaitsElement && (s.maxDepth == 0 || len(s.openBrackets) <= s.maxDepth) {
		s.elements++
	}
	s.awaitsElement = false
}
