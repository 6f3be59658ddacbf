# The proxy.
#   docker build -f images/proxy.Dockerfile -t edge-gateway/edge-proxy:v0.1.0 .
FROM rust:1.95.0-alpine AS build
# For ring, which is partly C.
RUN apk add --no-cache gcc musl-dev
# The compiler of this image, whatever the toolchain file adds for development.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /src
COPY . .
ARG EDGE_GATEWAY_COMMIT=unknown
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked -p edge-proxy --bin edge-proxy && \
    mkdir -p /out/tmp && cp target/dist/edge-proxy /out/edge-proxy
# Nothing but the program: it is linked statically.
FROM scratch
ENV PATH=/usr/local/bin
# The same where the kernel gives everybody huge pages.
ENV MIMALLOC_ALLOW_THP=0
COPY --from=build /out/edge-proxy /usr/local/bin/edge-proxy
COPY --from=build --chown=65532:65532 /out/tmp /tmp
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/edge-proxy"]
