// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// RawJSON is any JSON value, or none.
type RawJSON struct {
	// Raw is the value with its keys sorted and without white space, so that
	// equal values are equal bytes.
	Raw []byte `json:"-"`
}

var (
	_ json.Marshaler   = RawJSON{}
	_ json.Unmarshaler = (*RawJSON)(nil)
)

// MarshalJSON implements json.Marshaler.
func (r RawJSON) MarshalJSON() ([]byte, error) {
	if len(r.Raw) == 0 {
		return []byte("null"), nil
	}
	return r.Raw, nil
}

// UnmarshalJSON implements json.Unmarshaler. Numbers stay as they are written,
// whatever their size; null is no value.
func (r *RawJSON) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return fmt.Errorf("reading raw JSON: %w", err)
	}
	if value == nil {
		r.Raw = nil
		return nil
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("writing raw JSON: %w", err)
	}
	r.Raw = raw
	return nil
}

// OpenAPISchemaType is none: any JSON value is one of these.
func (RawJSON) OpenAPISchemaType() []string { return nil }

// OpenAPISchemaFormat is none.
func (RawJSON) OpenAPISchemaFormat() string { return "" }
