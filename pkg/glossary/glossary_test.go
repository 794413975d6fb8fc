// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package glossary

import (
	"testing"

	"github.com/weir-rollouts/weir/internal/golden"
)

// The page has the same words as the command line.
func TestPage(t *testing.T) {
	t.Parallel()
	golden.At(t, "../../docs/glossary.md", Markdown())
}
