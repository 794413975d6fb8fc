# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help web web-deps e2e-web screenshots demo cluster cluster-up cluster-down story test verify lint update size judge flakes e2e attack e2e-traffic e2e-network e2e-argocd e2e-metrics matrix upgrade record oracle soak fuzz mutants mutate bench microbench build image push dist packaging site kube helm clients argo argocdcache traefik prometheus promql clean

export CGO_ENABLED = 0
# The same for everything, or Go would compile all of it once more.
export GOFLAGS ?= -buildvcs=false
DIR ?= bin/cluster
OUT ?= bin
NODES ?= 3
POD_READY ?= 200ms..800ms
WEIR ?= 1
VERSIONS ?= 1.34 1.36
FUZZ_TIME ?= 30s
SOAK_TIME ?= 20m
SOAK_RELEASES ?= 500
TIMES ?= 10
SHOTS ?= bin/screenshots
SITE ?= bin/site
run = $(if $(RUN),-run '^($(RUN))$$')
short = $(if $(SHORT),-short)
set_version = $(if $(VERSION),-X github.com/weir-rollouts/weir/pkg/dashboard.buildVersion=$(VERSION))
# What test and e2e run of test; attack has a target of its own.
e2e_tests = ./test/cluster ./test/e2e ./test/kruise
# What must hold with weir-controller apart, too, since processes and rights are others.
apart_tests = TestKill|TestKillAborting|TestFailures|TestAllDown|TestReplicas|TestDoctor|TestTakeOver|TestUninstall|TestOrphanedHold|TestPermissions
# A deadline only ends what hangs; the waits of tests follow the speed of the machine.
go_e2e = go test -count=1 -p 1 -timeout 2h

help: ## print this help
	@awk '/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {split($$0, part, ":.*## "); printf "  make %-13s %s\n", part[1], part[2]}' $(firstword $(MAKEFILE_LIST))

##@ See it work
demo: cluster ## release an application step by step on a local control plane; KEEP=1 leaves it running
	KEEP=$(KEEP) hack/demo.sh

cluster-up: cluster ## start a local control plane with Weir: DIR=, NODES=, POD_READY=20ms..80ms, WEIR=0 without Weir
	bin/weir-cluster up -nodes=$(NODES) -pod-ready=$(POD_READY) -weir=$(WEIR) "$(DIR)"

cluster-down: ## end the control plane in DIR=
	bin/weir-cluster down "$(DIR)"

##@ Change it, every day
web: build ## work on the dashboard: its pages beside a server without a cluster, again as web/src changes
	hack/web.sh watch

story: ## run one story of the planner and print its transcript: S=partition/brief
	@cd pkg/planner/testdata; [[ -f '$(S).txt' ]] || { echo 'make story S=…, which is one of'; ls */*.txt | sed 's/\.txt$$//'; exit 1; }
	@go test ./pkg/planner -run '^TestStories$$/^$(subst /,$$/^,$(S))$$' && cat 'pkg/planner/testdata/$(S).txt'

test: build kube ## units, stories, goldens, fuzz seeds, server tests, and a short end-to-end pass; RUN='TestA|TestB' runs some
	go test -timeout 2h $(run) ./...
	$(go_e2e) -tags e2e -short $(run) $(e2e_tests)

verify: lint ## linters, generated code, licence headers, words, versions, go.mod, known vulnerabilities, sizes
	hack/verify-codegen.sh
	hack/web.sh verify
	hack/verify-headers.sh
	hack/verify-words.sh
	hack/verify-versions.sh
	go mod tidy -diff
	@hack/vuln.sh
	@go run ./hack/size

lint: ## linters only
	go tool -modfile=hack/tools/go.mod golangci-lint run

update: ## regenerate the code that is generated, and the pages of the dashboard
	hack/update-codegen.sh
	hack/web.sh build

web-deps: ## fetch the one library of the pages again, with npm: PREACT=version for another
	hack/web.sh vendor $(PREACT)

size: ## print lines of code by package, and the change since the last tag or BASE=
	@go run ./hack/size

##@ Before a piece of work ends
e2e: build kube clients ## every end-to-end test on a real control plane, and some with weir-controller apart; RUN='TestA|TestB' runs some
	$(go_e2e) -tags e2e,clients,replicas,long $(run) $(e2e_tests)
	$(if $(RUN),,$(go_e2e) -tags e2e,replicas,long -run '^($(apart_tests))$$' ./test/e2e -e2e.apart)

attack: build kube ## try what is not allowed, on a real control plane (docs/attack.md): with webhook and policies, and with each alone; SHORT=1 for both together only
	$(go_e2e) -tags e2e $(short) $(run) ./test/attack

e2e-traffic: build kube traefik ## releases under load, through a real proxy: requests lost, shares, times (docs/dataplane.md)
	$(go_e2e) -tags e2e,traffic -v $(run) ./test/dataplane

e2e-network: build kube ## the short end-to-end pass behind a firewall that lets kube-apiserver connect only to 443 and 10250; needs root and nft
	hack/network-test.sh $(if $(RUN),-test.run '^($(RUN))$$')

e2e-argocd: build kube argocdcache ## the cluster cache of Argo CD while the etcd of Weir, or all of Weir, is down
	$(go_e2e) -tags e2e,replicas,argocd -v -run '^TestArgoCDCache$$' ./test/e2e

e2e-metrics: build kube traefik prometheus ## releases judged by a real Prometheus: bad versions aborted in time, good ones not; SHORT=1 for three of them
	$(go_e2e) -tags e2e,traffic,metrics -v -parallel 4 $(short) $(or $(run),-run '^TestMetrics$$') ./test/dataplane

e2e-web: build kube ## the dashboard in a real browser: keyboard, screen reader, phone, two people; ONLY=pages needs no control plane
	hack/web-e2e.sh $(ONLY)

screenshots: build kube ## the same, with pictures of each state in SHOTS= (bin/screenshots)
	mkdir -p $(SHOTS)
	WEIR_WEB_SHOTS=$(abspath $(SHOTS)) hack/web-e2e.sh $(ONLY)

flakes: ## run RUN='TestA|TestB' TIMES= (10) times on a busy machine, and count
	@hack/flakes.sh '$(RUN)' $(TIMES)

mutants: ## apply small faults one by one; each must turn a test red
	hack/mutants.sh

mutate: ## make N= (50) faults from the syntax tree of PKGS=, one at a time, and print those that no test notices; SEED= selects them
	go run ./hack/mutate -n $(or $(N),50) -seed $(or $(SEED),1) $(or $(PKGS),./pkg/planner ./pkg/judge)

judge: ## simulate up to 10,000 releases for each row of the tables in docs/analysis-statistics.md, and print these
	go test ./pkg/judge -count=1 -v -timeout 3h -run '^(TestGoodVersions|TestGoodLatencies|TestTimes|TestOtherRules|TestOutages|TestOutagesPassNothing|TestSticky|TestColdStart|TestTimesByScrape)$$' -attempts 10000

fuzz: ## fuzz each target for FUZZ_TIME= (30s)
	hack/fuzz.sh $(FUZZ_TIME)

packaging: helm ## the chart for many values, image, JSON schemas and bills of materials, and the workflows of GitHub; needs no control plane
	go test -count=1 -tags clients $(run) ./charts
	rm -rf bin/schemas
	go run ./hack/schemas bin/schemas
	cd hack/release && GOWORK=off go test -count=1 $(run) .

soak: build kube ## the long randomised tests: schedules of the planner, then SOAK_TIME= (20m) and SOAK_RELEASES= (500) end to end
	go test ./pkg/planner -run "^TestSchedules$$" -schedules 20000 -timeout 2h
	go test -tags e2e,soak -count=1 -timeout 6h -v -run '^TestSoak$$' ./test/e2e -soak.time $(SOAK_TIME)
	go test -tags e2e,soak -count=1 -timeout 6h -v -run '^TestSoakReleases$$' ./test/e2e -parallel 12 -soak.releases $(SOAK_RELEASES) -soak.time 5h

##@ Other versions, and other systems
matrix: build kube ## the short end-to-end pass on other versions of Kubernetes: VERSIONS="1.34 1.36" (each is built once)
	for version in $(VERSIONS); do hack/kube.sh "$$version"; done
	for version in $(VERSIONS); do $(go_e2e) -tags e2e -short ./test/e2e -e2e.kube="$(CURDIR)/bin/kube-$$version"; done

upgrade: build kube ## upgrade from PREVIOUS= (a commit, or else this one without a field) and back, mid-release, process by process
	hack/previous.sh $(PREVIOUS)
	$(go_e2e) -tags e2e,replicas,upgrade -v -run '^TestUpgrade$$' ./test/e2e -e2e.previous="$(CURDIR)/bin/previous"

record: build kube ## record how this version stores objects, as VERSION= of pkg/apiserver/testdata/stored, for tests of later ones
	$(go_e2e) -tags e2e,record -run '^TestRecord$$' ./test/e2e -e2e.record="$(CURDIR)/pkg/apiserver/testdata/stored/$(VERSION)"

oracle: build kube ## compare every answer with that of OpenKruise's CRDs: CRDS=dir, and CORPUS=dir of manifests
	go run ./hack/oracle -crds "$(CRDS)" -corpus "$(CORPUS)"

##@ Measure it
bench: build kube $(filter argo,$(PEER)) ## release on a real control plane, and print times and costs: BENCH="-n 100 -traffic", PEER=argo beside Argo Rollouts (docs/performance.md)
	go run ./hack/bench $(if $(PEER),-peer=$(PEER)) $(BENCH)

microbench: ## run the benchmarks of single functions
	go test ./... -run '^$$' -bench . -benchmem

##@ Build parts of it
build: ## build bin/weir-apiserver, weir-controller, weir-dashboard and kubectl-weir; OUT=bin, VERSION= as the dashboard shows it (dev)
	hack/build.sh $(OUT)/weir-apiserver '$(set_version)' ./cmd/apiserver
	hack/build.sh $(OUT)/weir-controller '' ./cmd/controller
	hack/build.sh $(OUT)/weir-dashboard '$(set_version)' ./cmd/dashboard
	hack/build.sh $(OUT)/kubectl-weir '' ./cmd/kubectl-weir

image: ## build the image into dist, without docker: VERSION= (git describe), PLATFORMS="linux/amd64 linux/arm64", IMAGE=weir (docs/install.md)
	VERSION='$(VERSION)' PLATFORMS='$(PLATFORMS)' IMAGE='$(IMAGE)' hack/image.sh dist

push: ## push the image in dist to a registry, with the credentials of docker login: IMAGE=registry.example.com/weir, VERSION=
	cd hack/release && GOWORK=off go run . push ../../dist/weir-image-$(or $(VERSION),$$(git describe --tags --always)) $(IMAGE):$(or $(VERSION),$$(git describe --tags --always))

dist: ## build all that a release publishes into dist: VERSION=, PLATFORMS=, IMAGE= as for image, CLIENTS="darwin/arm64 …"
	VERSION='$(VERSION)' PLATFORMS='$(PLATFORMS)' CLIENTS='$(CLIENTS)' IMAGE='$(IMAGE)' hack/dist.sh dist

site: ## build the pages of docs as a static site with search: SITE= (bin/site)
	go run ./hack/site '$(SITE)' "$$(git describe --always --dirty)"
	@echo 'Open $(SITE)/index.html in a browser, or copy $(SITE) to any web server.'

cluster: build kube
	hack/build.sh bin/weir-cluster '' ./hack/cluster

kube: ## build the Kubernetes programs of local clusters into bin/kube, once
	hack/kube.sh

helm: ## build Helm into bin/clients, once
	mkdir -p bin/clients
	cd hack/helm && GOWORK=off ../build.sh ../../bin/clients/helm '' helm.sh/helm/v4/cmd/helm

clients: ## build the clients that others wrote for this API into bin/clients, once
	hack/clients.sh

argo: ## build the controller of Argo Rollouts into bin/argo, once
	hack/argo.sh

argocdcache: ## build a program with the cluster cache of Argo CD into bin/argocdcache, once
	hack/argocdcache.sh

traefik: ## build the proxy of the data plane test into bin/traefik, once
	hack/traefik.sh

prometheus: ## build the Prometheus of the tests of metrics into bin/prometheus, once
	hack/prometheus.sh

promql: prometheus ## run the queries of pkg/metric in the engine of Prometheus, and ask a real one
	cd hack/prometheus && GOWORK=off go test -count=1 -tags remove_all_sd .
	go test -count=1 -tags e2e -run '^TestPrometheus$$' ./pkg/source

clean: ## remove what was built
	rm -rf bin dist
