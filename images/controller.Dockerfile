# The controller, which is the shutdown manager of proxies and the job of certificates too.
#   docker build -f images/controller.Dockerfile -t edge-gateway/edgegateway:v0.1.0 .
FROM rust:1.95.0-alpine AS build
# For ring, which is partly C.
RUN apk add --no-cache gcc musl-dev
# The compiler of this image, whatever the toolchain file adds for development.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /src
COPY . .
ARG EDGE_GATEWAY_COMMIT=unknown
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked -p edge-runtime --bin edgegateway && \
    mkdir -p /out/tmp && cp target/dist/edgegateway /out/edgegateway
# Nothing but the program: it is linked statically.
FROM scratch
ENV PATH=/usr/local/bin
# The same where the kernel gives everybody huge pages.
ENV MIMALLOC_ALLOW_THP=0
COPY --from=build /out/edgegateway /usr/local/bin/edgegateway
COPY --from=build --chown=65532:65532 /out/tmp /tmp
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/edgegateway"]
