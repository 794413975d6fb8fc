# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# One image for all pods of artifacts/: weir-apiserver, weir-controller, for artifacts/ha
# etcd, and for artifacts/dashboard weir-dashboard. Static binaries and the certificate authorities
# that metrics servers need, run as nobody. make image builds the same without docker.
#   docker buildx build --platform=linux/amd64,linux/arm64 --build-arg=VERSION=TAG --tag=REPOSITORY/weir:TAG --push .
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS
ARG TARGETARCH
ARG VERSION
ENV CGO_ENABLED=0 GOFLAGS="-buildvcs=false -trimpath"
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ENV GOOS=$TARGETOS GOARCH=$TARGETARCH
RUN make build OUT=/out VERSION="$VERSION" && go build -ldflags="-s -w" -o /out/etcd go.etcd.io/etcd/server/v3

FROM scratch
COPY --from=build /out/weir-apiserver /out/weir-controller /out/weir-dashboard /out/etcd /
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
USER 65532:65532
ENTRYPOINT ["/weir-apiserver"]
