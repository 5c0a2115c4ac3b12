# Two commands do everything on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin

.PHONY: env
env: .venv/ready  ## build .venv from the lock

.venv/ready: requirements.lock pyproject.toml
	@command -v uv >/dev/null || $(PYTHON) -m pip install --quiet --user uv
	@UV=$$(command -v uv || echo "$$($(PYTHON) -m site --user-base)/bin/uv"); \
	  "$$UV" venv --quiet --allow-existing --python $(PYTHON) .venv && \
	  "$$UV" pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock && \
	  "$$UV" pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

.PHONY: kafka
kafka:  ## Apache Kafka in the foreground, one node on 127.0.0.1 (PORT=9092 DATA=deploy/kafka/data)
	@exec deploy/kafka/kafka.sh
