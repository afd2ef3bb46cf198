# Two images from one build: `--target sprat` (the default) and `--target loadgen`.
# Written for BuildKit and for the older builder alike: no cache mounts.

# What decides which dependencies are built, and nothing else: the manifests, and
# the files that cargo takes for the roots of targets, each an empty program. While
# this stage's files are the same, the dependencies below come from the cache.
FROM debian:bookworm-slim AS manifests
WORKDIR /src
COPY . .
RUN find . -type f ! -name Cargo.toml ! -name Cargo.lock \
        ! -name build.rs ! -path '*/src/lib.rs' ! -path '*/src/main.rs' ! -path '*/src/bin/*.rs' \
        ! -path '*/benches/*.rs' ! -path '*/examples/*.rs' ! -path '*/tests/*.rs' -delete \
    && find . -name '*.rs' -exec sh -c 'for root; do echo "fn main() { }" > "$root"; done' sh {} + \
    && find . -type d -empty -delete


FROM rust:1-bookworm AS builder
WORKDIR /src
# An image has no use for the lines of a debugger. Names stay, for backtraces. The C
# library is in the programs: Sprat's image has nothing else.
ENV CARGO_PROFILE_RELEASE_DEBUG=none CARGO_PROFILE_RELEASE_STRIP=debuginfo \
    RUSTFLAGS="-C target-feature=+crt-static"
# With a target named, build scripts and macros are built as ever.
RUN rustc -vV | sed -n 's/^host: //p' >/target
COPY --from=manifests /src ./
RUN cargo build --release --locked --target "$(cat /target)" -p sprat -p sprat-loadgen
# The history is not in the context: --build-arg SPRAT_COMMIT=$(git rev-parse --short=10 HEAD)
ARG SPRAT_COMMIT
COPY . .
# COPY keeps the files' times, which may be older than the empty programs' build.
RUN find . -path ./target -prune -o -name '*.rs' -exec touch {} + \
    && cargo build --release --locked --target "$(cat /target)" -p sprat -p sprat-loadgen \
    && mkdir /programs && cp "target/$(cat /target)"/release/sprat "target/$(cat /target)"/release/sprat-loadgen /programs/


FROM debian:bookworm-slim AS loadgen
COPY --from=builder /programs/sprat-loadgen /usr/local/bin/
ENTRYPOINT ["sprat-loadgen"]
CMD ["--help"]


# The program, and the certificate authorities for endpoints with `tls`: no shell, no
# library, nothing that is to be kept up to date beside it.
FROM scratch AS sprat
COPY --from=builder /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=builder /programs/sprat /usr/local/bin/
USER 10001:10001
ENV PATH=/usr/local/bin
EXPOSE 8080
STOPSIGNAL SIGTERM
# Mount a configuration there (docs/configuration.md), or name another place.
ENV SPRAT_CONFIG=/etc/sprat/sprat.yaml
HEALTHCHECK --interval=5s --timeout=5s --start-period=10s --retries=3 CMD ["sprat", "healthcheck"]
ENTRYPOINT ["sprat"]
CMD ["run"]
