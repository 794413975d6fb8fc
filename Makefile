# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build kube clients traefik cluster cluster-up cluster-down demo test e2e attack e2e-traffic matrix upgrade record oracle soak story fuzz bench microbench mutants verify lint update size clean

export CGO_ENABLED = 0
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
run = $(if $(RUN),-run '^($(RUN))$$')
short = $(if $(SHORT),-short)
# What test and e2e run of test; attack has a target of its own.
e2e_tests = ./test/cluster ./test/e2e ./test/kruise
go_build = hack/build.sh

help: ## print this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

build: ## build bin/weir-apiserver and bin/weir-controller
	$(go_build) $(OUT)/weir-apiserver '' ./cmd/apiserver
	$(go_build) $(OUT)/weir-controller '' ./cmd/controller

kube: ## build the Kubernetes binaries for local clusters into bin/kube (about 6 minutes, once)
	hack/kube.sh

clients: ## build the clients that others wrote for this API into bin/clients (a minute or two, once)
	hack/clients.sh

traefik: ## build the proxy of the data plane test into bin/traefik (about 6 minutes, once)
	hack/traefik.sh

cluster: build kube
	$(go_build) bin/weir-cluster '' ./hack/cluster

cluster-up: cluster ## start a local control plane with Weir: DIR=, NODES=, POD_READY=20ms..80ms, WEIR=0 without Weir
	bin/weir-cluster up -nodes=$(NODES) -pod-ready=$(POD_READY) -weir=$(WEIR) "$(DIR)"

cluster-down: ## end the control plane in DIR=
	bin/weir-cluster down "$(DIR)"

demo: cluster ## release an application step by step on a local control plane; KEEP=1 leaves it running
	$(go_build) bin/weir-demo '' ./hack/demo
	bin/weir-demo $(if $(KEEP),-keep)

test: build kube ## units, stories, goldens, fuzz seeds, server tests, and a short end-to-end pass
	go test -timeout 1h $(run) ./...
	go test -tags e2e -count=1 -p 1 -short -timeout 2h $(run) $(e2e_tests)

e2e: build kube clients ## every end-to-end test on a real control plane; here and above RUN='TestA|TestB' runs some
	go test -tags e2e,clients,replicas -count=1 -p 1 -timeout 60m $(run) $(e2e_tests)

attack: build kube ## try what nobody may, on a real control plane (docs/attack.md): both doors, and each alone; SHORT=1 for both doors only
	go test -tags e2e -count=1 -timeout 60m $(short) $(run) ./test/attack

matrix: build kube ## the short end-to-end pass on other versions of Kubernetes: VERSIONS="1.34 1.36" (each is built once, for 20 minutes)
	for version in $(VERSIONS); do hack/kube.sh "$$version"; done
	for version in $(VERSIONS); do \
		go test -tags e2e -count=1 -short -timeout 40m ./test/e2e -e2e.kube="$(CURDIR)/bin/kube-$$version"; done

e2e-traffic: build kube traefik ## releases under load, through a real proxy: requests lost, shares, times (docs/dataplane.md)
	go test -tags e2e,traffic -count=1 -timeout 15m -v $(run) ./test/dataplane

upgrade: build kube ## upgrade from PREVIOUS= (a commit, or else this one without a field) and back, mid-release, process by process
	hack/previous.sh $(PREVIOUS)
	go test -tags e2e,replicas,upgrade -count=1 -timeout 20m -v -run '^TestUpgrade$$' ./test/e2e -e2e.previous="$(CURDIR)/bin/previous"

record: build kube ## record how this version stores objects, as VERSION= of pkg/apiserver/testdata/stored, for tests of later ones
	go test -tags e2e,record -count=1 -timeout 20m -run '^TestRecord$$' ./test/e2e -e2e.record="$(CURDIR)/pkg/apiserver/testdata/stored/$(VERSION)"

oracle: build kube ## compare every answer with that of OpenKruise's CRDs: CRDS=dir, and CORPUS=dir of manifests
	go run ./hack/oracle -crds "$(CRDS)" -corpus "$(CORPUS)"

soak: build kube ## the long randomised tests: schedules of the planner, then SOAK_TIME= (20m) and SOAK_RELEASES= (500) end to end
	go test ./pkg/planner -run "^TestSchedules$$" -schedules 20000 -timeout 2h
	go test -tags e2e,soak -count=1 -timeout 6h -v -run '^TestSoak$$' ./test/e2e -soak.time $(SOAK_TIME)
	go test -tags e2e,soak -count=1 -timeout 6h -v -run '^TestSoakReleases$$' ./test/e2e -parallel 12 -soak.releases $(SOAK_RELEASES) -soak.time 5h

story: ## run one story of the planner and print its transcript: S=partition/brief
	@cd pkg/planner/testdata; [[ -f '$(S).txt' ]] || { echo 'make story S=…, which is one of'; ls */*.txt | sed 's/\.txt$$//'; exit 1; }
	@go test ./pkg/planner -run '^TestStories$$/^$(subst /,$$/^,$(S))$$' && cat 'pkg/planner/testdata/$(S).txt'

fuzz: ## fuzz each target for FUZZ_TIME= (30s)
	hack/fuzz.sh $(FUZZ_TIME)

bench: build kube ## release on a real control plane, and print times and costs: BENCH="-n 100 -traffic" (docs/performance.md)
	go run ./hack/bench $(BENCH)

microbench: ## run the benchmarks of single functions
	go test ./... -run '^$$' -bench . -benchmem

mutants: ## apply small faults one by one; each must turn a test red
	hack/mutants.sh

verify: lint ## linters, generated code, licence headers, go.mod, known vulnerabilities, sizes
	hack/verify-codegen.sh
	hack/verify-headers.sh
	hack/verify-versions.sh
	go mod tidy -diff
	@hack/vuln.sh
	@hack/size.sh

lint:
	go tool -modfile=hack/tools/go.mod golangci-lint run

update: ## regenerate the code that is generated
	hack/update-codegen.sh

size: ## print hand-written lines per area, tests left out
	@hack/size.sh

clean: ## remove what was built
	rm -rf bin
