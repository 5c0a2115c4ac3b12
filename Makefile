# Two commands do everything on a fresh machine: `make demo` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
# Processes that share tests: one more than two cores for programs, which wait a fifth of the time; quick tests do not
# wait, lint runs beside them, and each process more imports all of them once more.
WORKERS ?= 3
QUICK_WORKERS ?= 2
QUICK := not (long or slow or bus or browser or e2e or training or network or gpu or frameworks)
# Services with an image of their own: each has an extra in pyproject.toml and a lock in deploy/requirements.
IMAGES := annotator archive collectors streams forecaster control ui
# Where the environment forbids bytecode, every process compiles PyTorch anew: 11 s an import instead of 4.
unexport PYTHONDONTWRITEBYTECODE
# What a shell's own path of modules names would be tested in place of the checkout or of the installed wheel.
unexport PYTHONPATH
# Processes beside each other with as many threads of linear algebra as cores spin, at worst for minutes.
quick-tests: export OPENBLAS_NUM_THREADS := 1
GATE = $(PYTHON) deploy/gate.py --workers $(WORKERS) --args='$(ARGS)'
NPM := PATH="$(CURDIR)/$(BIN):$$PATH" npm --silent --no-audit --no-fund --ignore-scripts
COMPILE := uv pip compile --universal --generate-hashes --python-version 3.11 --no-header --quiet

.DEFAULT_GOAL := help
.PHONY: help
help:  ## list these commands
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1|\2/p' Makefile | column -t -s '|'

.PHONY: env
env: .venv/ready  ## build .venv from the lock

.venv/ready: requirements.lock pyproject.toml deploy/environment.sh
	@PYTHON=$(PYTHON) deploy/environment.sh .venv
	@touch $@

# Whoever has the environment of `make env` has all that the demo needs; it alone needs a third of the packages.
.venv-demo/ready: deploy/requirements/demo-stack.lock pyproject.toml deploy/environment.sh
	@PYTHON=$(PYTHON) deploy/environment.sh .venv-demo deploy/requirements/demo-stack.lock
	@touch $@

DEMO_ENV = $(if $(wildcard .venv/ready),.venv,.venv-demo)
.PHONY: demo
demo: $(DEMO_ENV)/ready  ## watch a real training run whose slow rank is named, live (ARGS='--headless --json')
	@$(DEMO_ENV)/bin/paceline demo $(ARGS)

# What is run, and in which order: deploy/gate.py. Status 3: something could not be fetched.
.PHONY: test
test:  ## what every change must pass, in ten minutes: lint, quick tests, programs on both brokers, a training run, the wheel
	@$(GATE) land

.PHONY: test-all
test-all:  ## everything that needs no GPU, in 75 to 95 minutes (ARGS=--random-order)
	@$(GATE) all

.PHONY: test-part
test-part:  ## what `make test` leaves out, of parts (PART=streams,ui) or of those that your changes owe (PART=owed)
	@$(GATE) part --part '$(or $(PART),owed)'

.PHONY: check
check: env  ## while you work: lint and the shorter tests that need no broker, browser or training run (ARGS='-k name')
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint quick-tests

.PHONY: quick-tests
quick-tests:
	@$(PYTEST) -q -m '$(QUICK)' --dist loadgroup --no-loadscope-reorder --numprocesses $(QUICK_WORKERS) $(ARGS)

# The wheel is built by five small packages: without the environment of `make env` it takes seconds, and no PyTorch.
.venv-build/ready: deploy/requirements/build.lock pyproject.toml deploy/environment.sh
	@PYTHON=$(PYTHON) deploy/environment.sh .venv-build deploy/requirements/build.lock
	@touch $@

BUILD_ENV = $(if $(wildcard .venv/ready),.venv,.venv-build)
.PHONY: wheel
wheel: $(BUILD_ENV)/ready  ## what is installed elsewhere: dist/paceline-VERSION-py3-none-any.whl
	@rm -f dist/paceline-*.whl
	@$(BUILD_ENV)/bin/hatchling build -t wheel -d dist

# It runs where nothing of ours is installed: with that Python's PyTorch, and with .wheels where that lacks the rest.
.PHONY: test-gpu
test-gpu:  ## every prediction about the probe on a GPU, in eight minutes (PYTHON=python3 ARGS='--cpu', '--write')
	@PYTHONPATH=. $(PYTHON) -m experiments.gpu $(ARGS)

.PHONY: test-frameworks
test-frameworks: env wheel  ## the wheel under Lightning, Ray Train and others, unchanged: who is slow, and why (ARGS='--only ray', '--write')
	@PYTHON=$(PYTHON) deploy/environment.sh .venv-frameworks deploy/requirements/frameworks.lock dist/paceline-*.whl
	@$(BIN)/python -m experiments.frameworks $(ARGS)

# Servers and libraries of others, as processes here: what we write, they read back. Ten minutes at most.
.PHONY: integration-check
integration-check: wheel system  ## for real: MLflow's server, W&B offline, TensorBoard's reader, PostgreSQL (ARGS='mlflow postgresql')
	@PYTHON=$(PYTHON) deploy/environment.sh .venv-integration deploy/requirements/integration.lock dist/paceline-*.whl
	@.venv-integration/bin/python -m experiments.integration $(ARGS)

# x86-64 Linux machines are often offline: what their Python lacks beside PyTorch and numpy, carried along.
WHEEL_PLATFORMS := manylinux_2_28_x86_64 manylinux_2_17_x86_64 manylinux2014_x86_64 manylinux2010_x86_64
.PHONY: gpu-bundle
gpu-bundle:  ## wheels for `make test-gpu` on a machine without a network, into .wheels (FOR=3.12)
	@$(PYTHON) -m pip download --quiet --require-hashes --no-deps --only-binary=:all: --implementation cp \
	  --python-version $(or $(FOR),3.12) $(WHEEL_PLATFORMS:%=--platform %) -d .wheels -r deploy/requirements/gpu.lock

.PHONY: system
system:
	@deploy/system-packages.sh

.PHONY: lint
lint: env  ## ruff, mypy, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

.PHONY: regression
regression: env  ## write anew what the analysis says of each recording in tests/regression
	@$(BIN)/python tests/regression/rewrite.py

.PHONY: docs
docs: env  ## write events.md, gpu-rules.md, metrics.md, suggestions.md, schemas and asyncapi.json in docs from the code
	@$(BIN)/python docs/generate.py

.PHONY: dashboards
dashboards: env  ## write Grafana's dashboards in deploy/grafana/dashboards from deploy/grafana/boards
	@$(BIN)/python -m deploy.grafana.boards

.PHONY: chart
chart: env  ## write what the Helm chart holds of topics, rights, rules and dashboards, and its table of values
	@$(BIN)/python -m experiments.chart.files

# Every panel's expression must answer on a Prometheus that scraped the running stack; four minutes.
.PHONY: panels-check
panels-check: env system  ## rules, runbooks, dashboards by Grafana's types, and every panel on a real Prometheus (ARGS='--keep DIR')
	@PYTHONPATH=tests/plugins $(PYTEST) -q -p no_skips tests/deploy/test_prometheus.py tests/deploy/test_alertmanager.py tests/deploy/test_dashboards.py
	@$(NPM) ci --prefix deploy/grafana/check && $(NPM) run --prefix deploy/grafana/check check
	@$(BIN)/python -m experiments.panels $(ARGS)

# What `make demo` runs: `paceline demo` with its page, forecasts and sessions.
DEMO_STACK := training streams collectors ui forecaster control embedded
.PHONY: lock
lock:  ## pin what pyproject.toml asks for, with hashes and no index address
	@$(COMPILE) pyproject.toml --all-extras --group dev -o requirements.lock
	@$(COMPILE) --group bench pyproject.toml --all-extras --group dev -c requirements.lock -o deploy/requirements/bench.lock
	@$(COMPILE) --group anchors -o deploy/requirements/anchors.lock
	@$(COMPILE) --group fuzz pyproject.toml --all-extras --group dev -c requirements.lock -o deploy/requirements/fuzz.lock
	@$(COMPILE) --group frameworks pyproject.toml --extra streams --extra training -c requirements.lock \
	  -o deploy/requirements/frameworks.lock
	@$(COMPILE) --group integration pyproject.toml --extra streams --extra training --extra mlflow --extra archive \
	  -o deploy/requirements/integration.lock
	@$(COMPILE) --group gpu -c requirements.lock -o deploy/requirements/gpu.lock
	@$(COMPILE) --no-deps --group helm -o deploy/requirements/helm.lock
	@for image in $(IMAGES); do \
	  $(COMPILE) pyproject.toml --extra $$image -c requirements.lock -o deploy/requirements/$$image.lock; \
	done
	@$(COMPILE) pyproject.toml --extra training --extra streams -c requirements.lock -o deploy/requirements/demo.lock
	@$(COMPILE) --group editable pyproject.toml $(DEMO_STACK:%=--extra %) --override deploy/requirements/demo-overrides.txt \
	  -c requirements.lock -o deploy/requirements/demo-stack.lock
	@sed -nE 's/^requires = \["(.*)"\]/\1/p' pyproject.toml | \
	  $(COMPILE) - -c requirements.lock -o deploy/requirements/build.lock

.PHONY: sbom
sbom: env  ## what is in the wheel and in each image, as CycloneDX JSON in dist/sbom
	@$(BIN)/python -m deploy.supply.shipped.sbom

.PHONY: audit
audit: env  ## whether a package of any lock is known to be weak; fails where nobody can be asked
	@$(BIN)/python -m deploy.supply.shipped.audit

.PHONY: release
release: env wheel  ## the wheel with contents, provenance and sums, signed (KEY=FILE: an SSH key), in dist
	@$(BIN)/python -m deploy.supply.shipped.release --key $(or $(KEY),$(error make release KEY=FILE: an SSH key to sign with))

.PHONY: compose-check
compose-check: env  ## docker-compose.yml by the real Compose, its published schema and dclint; the Dockerfile by hadolint
	@$(NPM) ci --prefix deploy/lint
	@PATH="$(CURDIR)/$(BIN):$$PATH" deploy/lint/node_modules/.bin/dclint --config deploy/lint/dclint.json --max-warnings 0 docker-compose.yml
	@$(PYTEST) -q tests/deploy/test_compose.py tests/deploy/test_images.py

.PHONY: helm-check
helm-check: env system  ## the Helm chart: by both Helms, the schemas of operators, and its services natively on Kafka (ARGS='--keep DIR')
	@PYTHONPATH=tests/plugins $(PYTEST) -q -p no_skips tests/deploy/test_helm*.py
	@$(NPM) ci --prefix deploy/helm/check && $(BIN)/python -m experiments.chart.objects | PATH="$(CURDIR)/$(BIN):$$PATH" node deploy/helm/check/check.mjs
	@$(BIN)/python -m experiments.chart $(ARGS)
	@$(BIN)/python -m experiments.chart --secure $(ARGS)

.PHONY: images-check
images-check: env  ## every image of ours built, weighed and started without an engine; needs root (ARGS='collectors ui')
	@deploy/system-packages.sh images
	@$(BIN)/python -m experiments.images $(ARGS)

.PHONY: twin
twin: env system  ## the services of docker-compose.yml without containers, until the demo's slow rank is named (ARGS=--secure)
	@$(BIN)/python -m experiments.twin $(ARGS)

# Ten minutes on two cores; it needs root, for slurmd does.
.PHONY: slurm-check
slurm-check: env  ## a real Slurm with two nodes here: srun, torchrun, mpirun, arrays, requeues, the task prolog (ARGS='each')
	@deploy/system-packages.sh slurm
	@$(BIN)/python -m experiments.slurm $(ARGS)

.PHONY: ray-check
ray-check: env wheel  ## a real Ray with two nodes here, each under `paceline run`: the slow rank by name, on its node (ARGS='name')
	@PYTHON=$(PYTHON) deploy/environment.sh .venv-frameworks deploy/requirements/frameworks.lock dist/paceline-*.whl
	@$(BIN)/python -m experiments.ray_cluster $(ARGS)

# One after the other: each judges processes that need the machine for themselves.
.PHONY: cluster-check
cluster-check:  ## the whole stack: compose file, Helm chart, images, native twin in the clear and secured, rules, every panel, Slurm, Ray; 50 minutes
	@$(MAKE) --no-print-directory compose-check
	@$(MAKE) --no-print-directory helm-check
	@$(MAKE) --no-print-directory twin ARGS=--browser
	@$(MAKE) --no-print-directory twin ARGS=--secure
	@$(MAKE) --no-print-directory panels-check
	@$(MAKE) --no-print-directory slurm-check
	@$(MAKE) --no-print-directory ray-check
	@$(MAKE) --no-print-directory images-check

.PHONY: kafka
kafka:  ## Apache Kafka in the foreground, one node on 127.0.0.1 (PORT=9092 DATA=deploy/kafka/data)
ifeq ($(origin SCRAM_USERS),command line)
	@echo "make kafka: passwords on a command line are for all to see; put the users into a file and name it: SCRAM_USERS_FILE=FILE" >&2
	@exit 2
endif
	@exec deploy/kafka/kafka.sh

.PHONY: chaos
chaos: env  ## hurt a real stack at random for 20 minutes: it must say what it says in peace (ARGS='--minutes 5 --seed 7')
	@$(BIN)/python -m experiments.chaos $(ARGS)

.PHONY: soak
soak: env system  ## start, end and restart the stack 1,000 times: how often it is not ready in 30 s (ARGS='--starts 40 --load 8')
	@$(BIN)/python -m experiments.soak $(ARGS)

.PHONY: bench-env
bench-env: env
	@PYTHON=$(PYTHON) deploy/environment.sh .venv deploy/requirements/bench.lock

.PHONY: fuzz-env
fuzz-env: env
	@PYTHON=$(PYTHON) deploy/environment.sh .venv deploy/requirements/fuzz.lock

.PHONY: fuzz
fuzz: fuzz-env  ## hostile bytes at every decoder, reader, importer and HTTP route (MINUTES=20 TARGET=name)
	@$(BIN)/python -m experiments.fuzzing $(if $(MINUTES),--minutes $(MINUTES)) $(if $(TARGET),--target '$(TARGET)') $(ARGS)

.PHONY: bench-streams
bench-streams: bench-env  ## rows per second and delay through broker and Faust, beside other stream processors
	@$(BIN)/python -m experiments.throughput $(ARGS)

.PHONY: bench-forecasting
bench-forecasting: env  ## forecasts, cycles and kinds of job on recorded data (DATA=FOLDER, ARGS='--write')
	@$(BIN)/python -m experiments.forecasting $(if $(DATA),--data $(DATA)) $(ARGS)

.PHONY: bench-anchors
bench-anchors: env  ## fracast, Prophet and, in an environment of their own, AutoETS, AutoTheta and MSTL on the cases of bench-forecasting (DATA=FOLDER)
	@PYTHON=$(PYTHON) deploy/environment.sh .paceline/anchors deploy/requirements/anchors.lock
	@for python in $(BIN) .paceline/anchors/bin; do $$python/python -m experiments.forecasting.anchors $(if $(DATA),--data $(DATA)) $(ARGS) || exit; done

.PHONY: bench-forecaster
bench-forecaster: env  ## what a fleet's forecasts cost, a batch's seconds, and whether free GPUs came as was said (ARGS='--only free')
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m experiments.forecasting.service $(ARGS)

.PHONY: bench-breakdown
bench-breakdown: bench-env  ## where a device's time went in made-up profiler traces, beside HolisticTraceAnalysis
	@$(BIN)/python -m experiments.breakdown $(ARGS)

.PHONY: bench-overhead
bench-overhead: env  ## what `paceline run` costs a training run
	@$(BIN)/python -m experiments.overhead $(ARGS)

.PHONY: bench-compare
bench-compare: env  ## how often `paceline compare` is wrong, on simulated runs (ARGS='--pairs 20')
	@$(BIN)/python -m experiments.comparing $(ARGS)

.PHONY: bench-detection
bench-detection: bench-env  ## recall, causes and false accusations on real runs and simulated jobs (ARGS=--quick)
	@$(BIN)/python -m experiments.detection --plot docs/images/detection.png $(ARGS)

.PHONY: bench-hangs
bench-hangs: env  ## how soon real ranks that hang are named, with kind, rank and line; goes on where it was ended (ARGS='--runs 20')
	@$(BIN)/python -m experiments.hangs $(ARGS)

.PHONY: bench-balancing
bench-balancing: bench-env  ## uneven shares beside uniform ones, papers' rules and an oracle, simulated and real (ARGS='--only simulated')
	@$(BIN)/python -m experiments.balancing $(ARGS)

.PHONY: tour
tour: env system  ## the page over 20 simulated jobs on 512 GPUs and a real run, in a browser, 15 minutes (ARGS=--pictures)
	@$(BIN)/python -m experiments.tour $(ARGS)

.PHONY: bench-page
bench-page: env  ## what a refresh of the page costs the browser, by its own trace (ARGS='--nodes 12500 --path fleet')
	@$(BIN)/python -m experiments.page $(ARGS)

.PHONY: bench-archive
bench-archive: env  ## a month of 10,000 GPUs in an archive: its size, how soon it answers, how fast rows come in (ARGS='--to FOLDER --keep')
	@$(BIN)/python -m experiments.archive $(ARGS)

.PHONY: bench-idle
bench-idle: env  ## what the whole stack takes while nothing happens, processor and memory by process; nine minutes (ARGS='--after 20 --for 30')
	@$(BIN)/python -m experiments.idle $(ARGS)

.PHONY: bench-growth
bench-growth: bench-env  ## memory, snapshots, restarts and scaling against ranks and jobs (ARGS=--quick)
	@$(BIN)/python -m experiments.growth --plot docs/images/growth.png $(ARGS)
