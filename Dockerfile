# Two images from one build: `--target sprat` (the default) and `--target loadgen`.
# Written for BuildKit and for the older builder alike: no cache mounts.

FROM rust:1-bookworm AS builder
WORKDIR /src

# The dependencies first, against empty crates, so that a change of Sprat's own
# source does not compile them again. Cargo wants every target that a manifest
# names, so the benchmarks are there too, empty.
COPY Cargo.toml Cargo.lock ./
COPY scheduler/Cargo.toml scheduler/Cargo.toml
COPY config/Cargo.toml config/Cargo.toml
COPY proxy/Cargo.toml proxy/Cargo.toml
COPY loadgen/Cargo.toml loadgen/Cargo.toml
COPY filters/common/Cargo.toml filters/common/Cargo.toml
COPY filters/e2e/Cargo.toml filters/e2e/Cargo.toml
COPY filters/envoy-wasm/Cargo.toml filters/envoy-wasm/Cargo.toml
COPY filters/envoy-module/Cargo.toml filters/envoy-module/Cargo.toml
RUN for crate in */Cargo.toml filters/*/Cargo.toml; do \
        crate=${crate%/*}; mkdir -p "$crate/src" "$crate/benches"; \
        touch "$crate/src/lib.rs"; echo 'fn main() {}' > "$crate/src/main.rs"; \
        for bench in $(awk -F '"' '/^\[/ { on = /^\[\[bench/ } on && /^name/ { print $2 }' "$crate/Cargo.toml"); do \
            echo 'fn main() {}' > "$crate/benches/$bench.rs"; \
        done; \
    done \
    && cargo build --release --locked -p sprat -p sprat-loadgen \
    && rm -rf ./*/src ./*/benches ./filters/*/src

COPY . .
# COPY keeps the files' times, which may be older than the empty crates' build.
RUN find . -path ./target -prune -o -name '*.rs' -exec touch {} + \
    && cargo build --release --locked -p sprat -p sprat-loadgen


FROM debian:bookworm-slim AS loadgen
COPY --from=builder /src/target/release/sprat-loadgen /usr/local/bin/
ENTRYPOINT ["sprat-loadgen"]
CMD ["--help"]


FROM debian:bookworm-slim AS sprat
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin sprat
COPY --from=builder /src/target/release/sprat /usr/local/bin/
COPY docker/healthcheck /usr/local/bin/sprat-healthcheck
USER sprat
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=2s --start-period=10s --retries=3 CMD ["sprat-healthcheck"]
ENTRYPOINT ["sprat"]
# Mount a configuration there; see docs/configuration.md.
CMD ["run", "-c", "/etc/sprat/sprat.yaml"]
