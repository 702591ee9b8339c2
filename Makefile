# Each target ends with one summary line and a true exit status. None needs root.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
HOT := $(shell sed -n 's/^HOT_PATHS *= *//p' setup.py | tr -d '[](),"' )
SEEDS ?= 200
SEED ?=
PROFILE ?=
KILLS ?= 20
CLEANINGS ?= 100
POINTS ?= 20000
ROWS ?=
SECONDS ?= 60
ONLY ?=
SECONDS_PER_LEVEL ?= 10

.PHONY: model sim-dual-writes dual-writes all install test lint fix demo sim crash power chaos fuzz conformance compatibility upgrade-drill bench docs lock clean spark-kills scale compaction
all: lint test

$(STAMP): requirements/dev.txt pyproject.toml setup.py $(wildcard src/oncelog/wire/record_codec.py src/oncelog/wire/arrow_codec.py src/oncelog/host/native_sync.c)
	@$(PYTHON) tools/install.py $(VENV)
	@touch $(STAMP)

install: $(STAMP)
	@echo "install: oncelog is in $(BIN)/oncelog"

test: $(STAMP)
	@$(BIN)/python -m pytest -n 2 --dist loadfile -q

lint: $(STAMP)
	@$(BIN)/ruff check -q src tests bench examples tools setup.py
	@$(BIN)/ruff format -q --check src tests bench examples tools setup.py
	@$(BIN)/mypy
	@$(BIN)/mypy --strict examples/order_service.py examples/consume_to_database.py examples/event_sourcing.py tests/recipes/user_side.py tests/client/user_side.py
	@$(BIN)/pyright
	@$(BIN)/python -m pytest -q tests/test_architecture.py
	@echo "lint: clean"

fix: $(STAMP)
	@$(BIN)/ruff check -q --fix src tests bench examples tools setup.py; $(BIN)/ruff format -q src tests bench examples tools setup.py
	@echo "fix: done"

demo: $(STAMP)
	@$(BIN)/python -m oncelog.demo $(if $(ROWS),--rows $(ROWS))

sim: $(STAMP)
	@$(BIN)/python -m tests.simulator $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(if $(PROFILE),--profile $(PROFILE))

lock:
	uv pip compile -q --no-emit-index-url --no-emit-find-links --no-header --generate-hashes --python-version 3.11 -o requirements/dev.txt requirements/dev.in
	uv pip compile -q --no-emit-index-url --no-emit-find-links --no-header --generate-hashes --python-version 3.11 -o requirements/java.txt requirements/java.in

clean:
	@rm -rf $(VENV) build; echo "clean: removed $(VENV) and build"

bench: $(STAMP)
	@$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY))

fuzz: $(STAMP)
	@$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

# A small tmpfs that can be filled needs root; without it the full disks are left out, and it says so.
chaos: $(STAMP)
	@$(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED))

scale: $(STAMP)
	@$(BIN)/python -m tests.scale $(if $(ONLY),--only $(ONLY))

compaction: $(STAMP)
	@$(BIN)/python -m tests.compaction --cleanings $(CLEANINGS)

model: $(STAMP)
	@$(BIN)/python -m tests.model $(if $(ONLY),--only "$(ONLY)")

crash: $(STAMP)
	@$(BIN)/python -m tests.crash --kills $(KILLS)

# Crash points: every operation of every file, before, in the middle and after it; then the n-th operation fails, for every n.
power: $(STAMP)
	@$(BIN)/python -m tests.crash.points --points $(POINTS) $(if $(SEED),--seed $(SEED))

spark-kills: $(STAMP)
	@$(BIN)/python -m tests.spark.kills --kills $(if $(filter-out 20,$(KILLS)),$(KILLS),20) --fail-tasks --zombie
	@$(BIN)/python -m tests.spark.kills --kills 10 --against kafka

conformance: $(STAMP)
	@$(BIN)/python -m tests.compat.conformance

# Foreign clients and the drills in full; writes docs/compatibility.md. ONLY: clients, by name.
compatibility: $(STAMP)
	@$(BIN)/python -m tests.compat.clients --save $(if $(ONLY),--only "$(ONLY)")
	@$(BIN)/python -m tests.compat.drills --full --save

upgrade-drill: $(STAMP)
	@$(BIN)/python -m tests.upgrade --seconds $(SECONDS_PER_LEVEL)

sim-dual-writes: $(STAMP)
	@$(BIN)/python -m tests.recipes.simulate $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

dual-writes: $(STAMP)
	@$(BIN)/python -m tests.recipes.crash --kills $(KILLS) $(if $(MINUTES),--minutes $(MINUTES))
