// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package openapi holds the published schemas of every type that the server
// speaks. It answers "what may a client send", is generated from the wire
// types, and must not be written by hand.
package openapi
