# `make` alone lists the targets. Whatever a target needs, its script installs.

.DEFAULT_GOAL := help
CARGO_HOME ?= $(HOME)/.cargo
export PATH := $(CARGO_HOME)/bin:$(PATH)

.PHONY: help run demo test checks mutants build install deb static book fmt lint bench compare compare-networks find-rate compare-simulated compare-http2 compare-counterfactual compare-compression http2-memory idle-memory compare-farm background starvation failover bench-peers simulate simulate-networks fault-simulation fuzz-smoke slow-clients buffering check-browser check-dashboard test-compose demo-envoy compare-envoy compare-envoy-farm bench-envoy soak soak-envoy soak-reload check-kubernetes filter filter-reproducible module schema clean config-load bench-observability reproduce

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' Makefile

run: ## Build and start Sprat with a demo farm, and say what to try
	@scripts/setup-run.sh
	@scripts/run-demo.sh

demo: ## nginx and Sprat side by side on a limited link, live on one page (root)
	@scripts/setup-run.sh
	@scripts/demo.sh

test: ## Install what the checks and tests need, and run them all
	@scripts/setup-test.sh
	@scripts/test.sh

checks: ## Every check that is not in make test, into results/checks.md (hours; QUICK=1)
	@scripts/setup-run.sh
	@scripts/checks.sh

mutants: ## Mutation tests of what changed since BASE (ALL=1: of the core and config, whole)
	@scripts/setup-run.sh
	@scripts/mutants.sh

build: ## Build both binaries, optimised by what Sprat does, into target/release (PGO=0: once, in half the time)
	@scripts/setup-run.sh
	@scripts/build.sh

book: ## Build the documents as a book, into target/book, and follow its links (OPEN=1)
	@scripts/setup-run.sh
	@scripts/book.sh

install: ## Install what `make build` made, with pages and completions (PREFIX=, DESTDIR=)
	@scripts/install.sh

deb: ## Make a Debian package, and install, run and purge it in a root of its own (root)
	@scripts/setup-run.sh
	@scripts/deb.sh

static: ## Build a program that needs no library, and run it in an empty root
	@scripts/setup-run.sh
	@scripts/static.sh

module: ## Build the dynamic module for Envoy, and check that it loads
	@scripts/setup-run.sh
	@scripts/module.sh

filter: ## Build the proxy-wasm filter for Envoy, into target/sprat-filter.wasm
	@scripts/filter.sh

filter-reproducible: ## Build the proxy-wasm filter twice, and compare the bytes
	@scripts/setup-run.sh
	@scripts/filter-reproducible.sh

fmt: ## Format the code
	cargo fmt --all

lint: ## Check formatting, lints and dependencies
	@scripts/setup-test.sh
	shellcheck --severity=warning scripts/*.sh
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy --manifest-path fuzz/Cargo.toml --locked -- -D warnings
	scripts/deny.sh

bench: ## Measure the cost of a grant, of HTTP/2's fields, and of reading 1 MB of configuration
	@scripts/setup-run.sh
	cargo bench --locked -p sprat-scheduler
	cargo bench --locked -p sprat-net --bench screen
	cargo bench --locked -p sprat-config --bench load

compare-farm: ## What order and dispatch are worth where the backends are the bottleneck
	@scripts/compare-farm.sh

compare: ## Replay one trace through nginx and Sprat in the lab, and report (root)
	@scripts/setup-run.sh
	@scripts/compare.sh

compare-networks: ## nginx and Sprat in many networks, with and without a named rate (root; ONLY=)
	@scripts/setup-run.sh
	@scripts/compare-networks.sh

find-rate: ## How soon `rate: auto` knows what the host's link carries, and follows it (root)
	@scripts/setup-run.sh
	@scripts/find-rate.sh

compare-simulated: ## The same runs in virtual time, and how far they agree
	@scripts/setup-run.sh
	@scripts/compare-simulated.sh

compare-http2: ## The same over a few HTTP/2 connections that carry all (root)
	@scripts/setup-run.sh
	@scripts/compare-http2.sh

compare-counterfactual: ## What Sprat tells that fair would take, against Sprat under fair (root)
	@scripts/setup-run.sh
	@scripts/compare-counterfactual.sh

compare-compression: ## What compression is worth on a limited link, and what the bytes predict (root)
	@scripts/setup-run.sh
	@scripts/compare-compression.sh

http2-memory: ## What HTTP/2 connections and streams cost in memory
	@scripts/setup-run.sh
	@scripts/http2-memory.sh

idle-memory: ## Memory of an idle connection: 10,000 of them, in plain text and under TLS
	@scripts/setup-run.sh
	@scripts/idle-memory.sh

background: ## What background traffic costs the foreground, in the lab (root)
	@scripts/setup-run.sh
	@scripts/background.sh

starvation: ## Events behind downloads, heads and a large download under overload, in the lab (root)
	@scripts/setup-run.sh
	@scripts/starvation.sh

failover: ## What clients notice when one of four endpoints fails under load
	@scripts/setup-run.sh
	@scripts/failover.sh

bench-peers: ## CPU time per request against nginx, HAProxy and Envoy
	@scripts/setup-run.sh
	@scripts/bench-peers.sh

bench-observability: ## CPU time per request with logs, metrics, dashboards and traces, over that without
	@scripts/setup-run.sh
	@scripts/bench-observability.sh

check-dashboard: ## The dashboard in Chromium, under load: it moves, keys, widths, pictures
	@scripts/setup-run.sh
	@scripts/check-dashboard.sh

check-browser: ## Chromium in front of Sprat: TLS, HTTP/2, priorities, WebSockets
	@scripts/setup-run.sh
	@scripts/check-browser.sh

slow-clients: ## What 2,000 slow clients cost a normal one, and whether they are cut
	@scripts/setup-run.sh
	@scripts/slow-clients.sh

buffering: ## What 50 slow readers cost those who share a backend with one worker
	@scripts/setup-run.sh
	@scripts/buffering.sh

simulate-networks: ## Random networks in virtual time: where the search for the rate does harm
	@scripts/setup-run.sh
	@scripts/simulate-networks.sh

simulate: ## The core in virtual time: theory, dispatch, the figures of SDIS02
	@scripts/setup-run.sh
	@scripts/simulate.sh

reproduce: ## The figures of five papers, row by row (root; QUICK=1: what can be simulated, up to an hour)
	@scripts/setup-run.sh
	@scripts/reproduce.sh

test-compose: ## Bring docker-compose.yml up for real and check it (root, Debian)
	@scripts/test-compose.sh

demo-envoy: ## Envoy with a filter of Sprat's and a demo farm (CONFIG=, see config/envoy/)
	@scripts/setup-run.sh
	@scripts/demo-envoy.sh

fault-simulation: ## The proxy among peers that fail, in virtual time (SEEDS=20000)
	@scripts/setup-run.sh
	SEEDS=$${SEEDS:-20000} CARGO_PROFILE_TEST_OPT_LEVEL=1 \
		cargo test --locked -p sprat --test faults nothing -- --nocapture

fuzz-smoke: ## Each fuzz target for half a minute (EACH_S=30 TARGETS=...)
	@scripts/setup-run.sh
	@scripts/fuzz-smoke.sh

soak: ## An hour of everything at once, held against its own beginning (SECONDS=3600)
	@scripts/setup-run.sh
	@scripts/soak.sh

config-load: ## A configuration of 1 MB: to load it, and requests during its reloads
	@scripts/setup-run.sh
	@scripts/config-load.sh

soak-reload: ## A hundred reloads in a minute under load, with a thousand WebSockets
	@scripts/setup-run.sh
	@scripts/soak-reload.sh

compare-envoy: ## Envoy on a limited link: alone, with each filter; and Sprat (root)
	@scripts/setup-run.sh
	@scripts/compare-envoy.sh

compare-envoy-farm: ## Envoy where the backends are the bottleneck: dispatch, waiting
	@scripts/setup-run.sh
	@scripts/compare-envoy-farm.sh

bench-envoy: ## What the filters cost Envoy: throughput, CPU time, idle
	@scripts/setup-run.sh
	@scripts/bench-envoy.sh

soak-envoy: ## Half a million requests of every kind through each filter
	@scripts/setup-run.sh
	@scripts/soak-envoy.sh

check-kubernetes: ## Hold config/kubernetes and config/kustomize against the published schemas (Go, pip)
	@scripts/check-kubernetes.sh

schema: ## Write the configuration's JSON Schema, and the references in docs/
	UPDATE=1 cargo test --locked -p sprat-config --test schema
	UPDATE=1 cargo test --locked -p sprat --test e2e metrics::document::

clean: ## Remove what was built, and the tools installed here
	cargo clean
	rm -rf .tools
