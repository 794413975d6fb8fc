// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/json"
)

// What a workload may have, of which a few bytes become a kilobyte when they are
// decoded. Workloads that run have a small part of it.
const (
	// mostParts bounds containers, volumes, claims, owners and writers of fields.
	mostParts = 512
	// mostElements bounds the elements of all its lists, and mostKeys its fields.
	mostElements, mostKeys = 10_000, 40_000
)

// outline is what is counted of a workload by name. The managed fields of a review of
// kube-apiserver are left out before (withoutManaged); those of other spellings count.
type outline struct {
	Metadata struct {
		ManagedFields   count `json:"managedFields"`
		OwnerReferences count `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Template struct {
			Spec struct {
				Containers          count `json:"containers"`
				InitContainers      count `json:"initContainers"`
				EphemeralContainers count `json:"ephemeralContainers"`
				Volumes             count `json:"volumes"`
			} `json:"spec"`
		} `json:"template"`
		VolumeClaimTemplates count `json:"volumeClaimTemplates"`
	} `json:"spec"`
}

// count counts the elements of lists, without decoding any. Where a key is there
// twice, both count, since both are decoded.
type count int

// UnmarshalJSON implements json.Unmarshaler.
func (c *count) UnmarshalJSON(data []byte) error {
	*c += count(measure(data, 1).elements)
	return nil
}

// bounded refuses what would take far more memory than its bytes.
func bounded(raw []byte) error {
	if m := measure(raw, 0); m.elements > mostElements || m.keys > mostKeys {
		return fmt.Errorf("it has %d elements of lists and %d fields, and may have %d and %d", m.elements, m.keys, mostElements, mostKeys)
	}
	var o outline
	if err := json.Unmarshal(raw, &o); err != nil {
		return errors.New("it is no workload")
	}
	pod := o.Spec.Template.Spec
	parts := o.Metadata.ManagedFields + o.Metadata.OwnerReferences + pod.Containers + pod.InitContainers + pod.EphemeralContainers +
		pod.Volumes + o.Spec.VolumeClaimTemplates
	if parts > mostParts {
		return fmt.Errorf("its containers, volumes, claims, owners and managed fields are %d, and may be %d", parts, mostParts)
	}
	return nil
}

// measured is how much there is in JSON.
type measured struct{ elements, keys int }

// measure counts without allocating for what it counts; within bounds how deep lists
// are looked into, where 0 is no bound. The JSON is well formed.
func measure(data []byte, within int) measured {
	s := scan{within: within}
	quoted := false
	for i := 0; i < len(data); i++ {
		switch b := data[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
			s.first()
		case !quoted:
			s.read(b)
		}
	}
	return s.measured
}

// scan is the state of a measurement: which lists and objects are open, and whether
// the next value is an element that has not been counted.
type scan struct {
	measured
	within int
	open   []byte
	empty  bool
}

// read takes a byte that is not in quotes.
func (s *scan) read(b byte) {
	switch b {
	case ' ', '\n', '\t', '\r':
	case '[', '{':
		s.first()
		s.open, s.empty = append(s.open, b), b == '['
	case ']', '}':
		s.open, s.empty = s.open[:max(len(s.open)-1, 0)], false
	case ',':
		s.empty = len(s.open) > 0 && s.open[len(s.open)-1] == '['
	case ':':
		s.keys++
	default:
		s.first()
	}
}

// first counts an element at its first byte.
func (s *scan) first() {
	if s.empty && (s.within == 0 || len(s.open) <= s.within) {
		s.elements++
	}
	s.empty = false
}
