#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Tests the dashboard in a browser with Playwright and axe from npm. The browser is the installed
# Chromium (CHROMIUM names another one), or otherwise that of Playwright. If one of these is not
# available, the script prints this and does not fail.
#   hack/web-e2e.sh pages   with recorded answers
#   hack/web-e2e.sh live    on a control plane
#   hack/web-e2e.sh         both
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing() {
	echo "e2e-web: NOT RUN, because $1" >&2
	exit 0
}
command -v npm >/dev/null || missing 'there is no npm'
npm ci --prefix web/e2e --no-audit --no-fund --silent || missing 'npm cannot install Playwright'
export CHROMIUM=${CHROMIUM:-$(command -v chromium || true)}
[[ $CHROMIUM ]] || (cd web/e2e && npx playwright install --only-shell chromium >/dev/null 2>&1) ||
	missing "there is no chromium, and none can be downloaded; install one, such as the package chromium of Debian"

[[ ${1:-pages} != pages ]] || (cd web/e2e && npx playwright test pages)
[[ ${1:-live} != live ]] || go test -tags e2e,web -count=1 -v -timeout 2h ./test/web
