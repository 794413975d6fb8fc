#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Tests the dashboard in a browser: Chromium as Debian has it (CHROMIUM names another), or
# else Playwright's, with Playwright and axe from npm. Where these are not to be had, it says
# so and passes.
#   hack/web-e2e.sh pages   with answers of fixtures
#   hack/web-e2e.sh live    on a control plane
#   hack/web-e2e.sh         both
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing() {
	echo "e2e-web: NOT RUN, since $1" >&2
	exit 0
}
command -v npm >/dev/null || missing 'there is no npm'
npm ci --prefix web/e2e --no-audit --no-fund --silent || missing 'npm has no Playwright'
export CHROMIUM=${CHROMIUM:-$(command -v chromium || true)}
[[ $CHROMIUM ]] || (cd web/e2e && npx playwright install --only-shell chromium >/dev/null 2>&1) ||
	missing "there is no chromium, and none to download; Debian's package is chromium"

[[ ${1:-pages} != pages ]] || (cd web/e2e && npx playwright test pages)
[[ ${1:-live} != live ]] || go test -tags e2e,web -count=1 -v -timeout 2h ./test/web
