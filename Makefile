# Each target ends with one summary line and a true exit status. None needs root.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
comma := ,
HOT := $(foreach each,$(shell find src -name '*.pxd'),$(each) $(each:.pxd=.py))
SEEDS ?= 200
SEED ?=
PROFILE ?=
KILLS ?= 20
CLEANINGS ?= 100
POINTS ?= 20000
ROWS ?=
SECONDS ?= 60
ONLY ?=
PART ?=
SECONDS_PER_LEVEL ?= 10
# The evidence tools run so leave their figures in build/proof (docs/proof.md).
RECORD = $(BIN)/python -m evidence.proof record

.PHONY: site chart test-long suite-cost tools-beside freezes cluster-kills healthy-load migration reconcile attacks exhaustion reload release authorizer steady process removals torture hostile-starts damaged-starts proof report soak mutants model sim-dual-writes sim-processes dual-writes all install test lint fix demo sim crash power chaos fuzz conformance tutorials compatibility upgrade-drill bench browser docs lock clean spark-kills scale compaction spark-cluster spark-cluster-kills spark-kafka-cluster-kills spark-adoption spark-options spark-ids spark-mistakes kafka-tests
all: lint test test-long

$(STAMP): requirements/dev.txt pyproject.toml setup.py $(HOT) $(wildcard src/oncelog/host/native_sync.c)
	@$(PYTHON) tools/install.py $(VENV)
	@touch $(STAMP)

install: $(STAMP)
	@echo "install: oncelog is in $(BIN)/oncelog"

# In memory where there is room (tests sync often; what the disk must do is told by evidence/syscalls, make crash and make power),
# several at a time on two cores (WORKERS): many wait for each other's processes; in the order of conftest.py, the longest files first.
# Hundreds of interpreters are started: what they import is compiled once (into __pycache__), whatever the environment says.
# `test` has to be short (5 minutes on two cores); what costs most is in `test-long` (conftest.py names it). CI runs both.
WORKERS = 4
SUITE = free=$$(df -Pm /dev/shm 2>/dev/null | awk 'NR == 2 {print $$4}'); parent=$${TMPDIR:-/tmp}; \
	if [ -w /dev/shm ] && [ "$${free:-0}" -ge 4096 ]; then parent=/dev/shm; fi; \
	directory=$$(mktemp -d "$$parent/oncelog-test.XXXXXX") && trap 'rm -rf "$$directory"' EXIT && \
	TMPDIR=$$directory PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -q

test: $(STAMP)
	@$(SUITE) --part short

test-long: $(STAMP)
	@$(SUITE) --part long

# What each test file costs of the processors, its child processes included: what belongs into conftest.py's LONG.
suite-cost: $(STAMP)
	@rm -rf build/suite-cost && mkdir -p build/suite-cost
	@export ONCELOG_SUITE_COST="$$PWD/build/suite-cost"; $(SUITE) -p tools.suite_cost --part $(or $(PART),all); \
	status=$$?; $(BIN)/python -m tools.suite_cost build/suite-cost; exit $$status

# The short suite RUNS times, BESIDE of them at a time on the same cores: a busy machine must not decide a test.
steady: $(STAMP)
	@$(BIN)/python -m tools.steady --runs $(or $(RUNS),20) --beside $(or $(BESIDE),3)

lint: $(STAMP)
	@$(BIN)/ruff check -q src tests evidence bench examples tools setup.py conftest.py
	@$(BIN)/ruff format -q --check src tests evidence bench examples tools setup.py conftest.py
	@$(BIN)/python tools/sync_recipes.py --check
	@$(BIN)/mypy
	@$(BIN)/mypy --strict examples/order_service.py examples/consume_to_database.py examples/event_sourcing.py examples/priced_orders.py examples/traced_orders.py examples/order_service_orm.py examples/faststream_orders.py tests/recipes/user_side.py tests/client/user_side.py
	@$(BIN)/pyright
	@$(BIN)/python -m pytest -q tests/test_architecture.py
	@echo "lint: clean"

fix: $(STAMP)
	@$(BIN)/ruff check -q --fix src tests evidence bench examples tools setup.py conftest.py; $(BIN)/ruff format -q src tests evidence bench examples tools setup.py
	@echo "fix: done"

demo: $(STAMP)
	@$(BIN)/python -m oncelog.demo $(if $(ROWS),--rows $(ROWS))

sim: $(STAMP)
	@$(if $(SEED),$(BIN)/python,$(RECORD) sim --) -m evidence.simulator $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --json {json}) $(if $(PROFILE),--profile $(PROFILE)) $(if $(WITH),--with "$(WITH)")

# The site of docs/, README.md and the docstrings: build/docs/index.html. A warning is an error.
$(VENV)/.docs-installed: $(STAMP) requirements/docs.txt
	@echo "docs: Sphinx, MyST and furo from requirements/docs.txt into $(VENV)" >&2
	@$(BIN)/python -m pip install --quiet --no-input --require-hashes -r requirements/docs.txt || \
	{ echo "docs: requirements/docs.txt cannot be installed: make docs needs Sphinx, MyST and furo from a package index" >&2; exit 1; }
	@touch $@

docs: $(VENV)/.docs-installed
	@rm -rf build/docs
	@$(BIN)/python -m sphinx -q -E -W --keep-going -b html -c tools/site -d build/docs-doctrees . build/docs
	@echo "docs: $$(find build/docs -name '*.html' | wc -l) pages, build/docs/index.html"

# The same as SITE/VERSION, beside the versions that are there; each page offers the others.
SITE ?= build/site
site: docs
	@$(BIN)/python -m tools.site.versions build/docs "$(SITE)" "$$($(BIN)/python -c 'import oncelog; print(oncelog.__version__)')"

# The Helm chart as Helm renders it, and that pod's broker started here. Helm: HELM_PATH, the PATH, or built with Go into build/.
HELM_PATH ?= $(shell command -v helm 2>/dev/null || echo build/helm/helm)
build/helm/helm:
	@command -v go >/dev/null || { echo "chart: install Helm, or name it in HELM_PATH, or install Go, which builds it" >&2; exit 1; }
	@echo "chart: Helm is built with Go, into build/helm (minutes)" >&2
	@GOBIN="$$PWD/build/helm" go install helm.sh/helm/v3/cmd/helm@v3.19.5

chart: $(VENV)/.docs-installed $(HELM_PATH)
	@HELM_PATH="$(abspath $(HELM_PATH))" $(BIN)/python -m pytest -q -n 0 tests/releasing/test_helm_chart.py

# The console in the system's Chromium (apt-get install chromium, or CHROMIUM_PATH): axe-core's rules, narrow screens, a broker that
# restarts, tabs, the time of a frame; and the journey in Firefox (apt-get install firefox-esr, or FIREFOX_PATH). axe-core and
# puppeteer-core come from npm, into build/, and are in no package of ours.
AXE := build/axe/package/axe.min.js
$(AXE):
	@mkdir -p build/axe && cd build/axe && npm pack --silent axe-core@4.14.1 >/dev/null && tar xzf axe-core-4.14.1.tgz
PUPPETEER := build/puppeteer/node_modules/puppeteer-core/lib/esm/puppeteer/puppeteer-core.js
$(PUPPETEER):
	@mkdir -p build/puppeteer && cd build/puppeteer && npm install --silent --no-audit --no-fund --prefix . puppeteer-core@24.43.1 >/dev/null
browser: $(STAMP) $(AXE) $(PUPPETEER)
	@ONCELOG_BROWSER=all ONCELOG_BROWSER_AGAINST=$(AGAINST) ONCELOG_AXE=$(AXE) ONCELOG_PUPPETEER=$(PUPPETEER) $(BIN)/python -m pytest -q -s -n 0 -p no:randomly tests/console/test_journey.py tests/console/test_browser.py tests/console/test_more_browser.py tests/console/test_past_browser.py tests/console/test_plans_browser.py tests/console/test_firefox.py

lock:
	uv pip compile -q --no-emit-index-url --no-emit-find-links --no-header --generate-hashes --python-version 3.11 -o requirements/dev.txt requirements/dev.in
	uv pip compile -q --no-emit-index-url --no-emit-find-links --no-header --generate-hashes --python-version 3.11 -o requirements/java.txt requirements/java.in
	uv pip compile -q --no-emit-index-url --no-emit-find-links --no-header --generate-hashes --python-version 3.11 -o requirements/docs.txt requirements/docs.in

clean:
	@rm -rf $(VENV) build; echo "clean: removed $(VENV) and build"

bench: $(STAMP)
	@$(BIN)/python -m bench $(if $(ONLY),--only "$(ONLY)")

fuzz: $(STAMP)
	@$(if $(findstring :,$(SEED)),$(BIN)/python,$(RECORD) fuzz --) -m evidence.fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(if $(findstring :,$(SEED)),,--json {json})

# Everything up to the upload, into dist/ (docs/releasing.md). REHEARSE=1: into build/rehearsal, whatever would be refused, no tag.
release: $(STAMP)
	@$(BIN)/python -m tools.release $(if $(REHEARSE),--rehearse)

# A small tmpfs that can be filled needs root; without it the full disks are left out, and it says so.
chaos: $(STAMP)
	@$(RECORD) chaos -- -m evidence.chaos $(if $(SEED),--seed $(SEED)) --json {json}

scale: $(STAMP)
	@$(BIN)/python -m evidence.scale $(if $(ONLY),--only $(ONLY))

# An hour of a busy, healthy broker, with `oncelog why` asked about everything on it. AGAINST=kafka: Apache Kafka.
healthy-load: $(STAMP)
	@$(BIN)/python -m evidence.healthy_load --seconds $(if $(filter file,$(origin SECONDS)),3600,$(SECONDS)) --against $(or $(AGAINST),oncelog) $(if $(SEED),--seed $(SEED))

# Our kafka-transactions and `oncelog groups` beside Apache Kafka's tools, on both brokers: docs/tools-beside.md.
tools-beside: $(STAMP)
	@$(BIN)/python -m evidence.compat.tools_beside

# Twelve ways to stand still, planted on oncelog and on Apache Kafka as three brokers: `oncelog why` names each, its command is typed.
freezes: $(STAMP)
	@$(BIN)/python -m evidence.freezes $(if $(AGAINST),--against $(AGAINST)) $(if $(ONLY),--only $(ONLY))

compaction: $(STAMP)
	@$(RECORD) compaction -- -m evidence.compaction --cleanings $(CLEANINGS) --json {json}

model: $(STAMP)
	@$(RECORD) model -- -m evidence.model $(if $(ONLY),--only "$(ONLY)") --json {json}

# Drawn mistakes; docs/mutants.md. SEED draws others; AGAIN=1: survivors only. ONLY (by name) or NAMED=1: the fixed list.
mutants: $(STAMP)
ifneq ($(ONLY)$(NAMED),)
	@$(RECORD) mutants -- -m evidence.mutants $(if $(ONLY),--only "$(ONLY)") --json {json}
else
	@$(BIN)/python -m evidence.mutants.drawn $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) $(if $(AGAIN),--again-survivors) $(if $(WORKERS),--workers $(WORKERS))
endif

# Each sync, rename and directory sync of the doors and the log taken out once: the system calls of a real broker must tell.
removals: $(STAMP)
	@$(BIN)/python -m evidence.syscalls.removals --only "$(if $(ONLY),$(ONLY),host/$(comma)log/)"

# Every public call of the clients cancelled where it waits, every argument wrong, and used on afterwards.
torture: $(STAMP)
	@$(BIN)/python -m evidence.torture --seeds $(if $(filter file,$(origin SEEDS)),100,$(SEEDS)) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only "$(ONLY)")

# Every command with arguments, standard files and environments that break careless tools.
hostile-starts: $(STAMP)
	@$(BIN)/python -m evidence.hostile_starts $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT))

# Directories of a broker that was stopped or killed, one file of each damaged in a drawn way, then a start: all is served, or the
# file is named and nothing is lost. EVERY=1: also each file in each way.
damaged-starts: $(STAMP)
	@$(if $(SEED),$(BIN)/python,$(RECORD) damaged-starts --) -m evidence.damaged_starts $(if $(SEED),--seed $(SEED),--seeds $(if $(filter file,$(origin SEEDS)),3000,$(SEEDS)) $(if $(EVERY),--every) --json {json})

crash: $(STAMP)
	@$(RECORD) crash -- -m evidence.crash --kills $(KILLS) --json {json}

# Crash points: every operation of every file, before, in the middle and after it; then the n-th operation fails, for every n.
power: $(STAMP)
	@$(RECORD) power -- -m evidence.crash.points --points $(POINTS) $(if $(SEED),--seed $(SEED)) --json {json}

# Members that consume, transform and produce are killed, paused and sent away: oncelog, then Apache Kafka where Java and mvn are.
process: $(STAMP)
	@$(BIN)/python -m evidence.processing --kills $(KILLS) $(if $(SEED),--seed $(SEED))

spark-kills: $(STAMP)
	@ONCELOG_ALL_STEPS=1 $(BIN)/python -m pytest -q tests/spark/test_steps.py
	@$(BIN)/python -m evidence.spark_kills.kills --kills $(if $(filter-out 20,$(KILLS)),$(KILLS),20) --fail-tasks --zombie
	@$(BIN)/python -m evidence.spark_kills.kills --kills 10 --against kafka

# Attacks on a secured broker, all of them; what Apache Kafka did with the same bytes is recorded (docs/attacks.md).
attacks: $(STAMP)
	@$(BIN)/python -m pytest -q evidence/attacks

# A topic moved from oncelog to Apache Kafka and back while it is written and read, and who moves it killed; judged by a foreign client.
migration: $(STAMP)
	@$(BIN)/python -m evidence.migration $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only "$(ONLY)")

# Faults planted into directories of both brokers, found by `oncelog reconcile`; healthy ones of many lives are called so.
reconcile: $(STAMP)
	@$(BIN)/python -m evidence.reconcile --seeds $(if $(filter file,$(origin SEEDS)),2,$(SEEDS)) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only "$(ONLY)")
	@$(if $(ONLY),,$(BIN)/python -m evidence.reconcile.spark_job)

# The Spark format's options on oncelog and on Apache Kafka: each line of docs/spark.md's tables, and random maps. SEED draws others.
spark-options: $(STAMP)
	@for against in oncelog kafka; do ONCELOG_OPTIONS_AGAINST=$$against ONCELOG_OPTION_MAPS=$(or $(COUNT),500) SEED=$(SEED) \
	$(BIN)/python -m pytest -q tests/spark/test_option_lines.py tests/spark/test_random_options.py || exit 1; done

# What micro-batches leave on a broker, counted: ids, producers, decisions, memory. BATCHES=415000 is a day of them (an hour).
spark-ids: $(STAMP)
	@$(BIN)/python -m evidence.spark_ids --batches $(or $(BATCHES),20000)

# What Spark itself tells of mistakes, and how our lines arrive in a session (docs/spark-mistakes.md).
spark-mistakes: $(STAMP)
	@$(BIN)/python -m evidence.spark_mistakes

# Each documented way to bring oncelog to a cluster: a standalone master and a worker as processes of their own (six minutes).
spark-cluster: $(STAMP)
	@$(BIN)/python -m evidence.spark_cluster

# Stateful queries on a standalone cluster of two workers, with drawn kills of executors, workers, driver and broker: 20 kills over
# 200,000 records take eleven minutes on two cores that do nothing else; KILLS=4 ROWS=8000 is a small one. VARIED=1: a stream-stream join,
# RocksDB, checkpoints behind another file system, dynamic allocation, failing tasks, excluded executors, an upgrade half-way.
spark-cluster-kills: $(STAMP)
	@$(BIN)/python -m evidence.spark_cluster.kills --kills $(KILLS) --rows $(or $(ROWS),200000) $(if $(SEED),--seed $(SEED)) $(if $(VARIED),--varied)

# The sink on Apache Kafka as three brokers, with kills of brokers and drivers, apart and together. KILLS and ROWS as above.
spark-kafka-cluster-kills: $(STAMP)
	@$(BIN)/python -m evidence.spark_kills.kills --against cluster --kills $(KILLS) --records $(or $(ROWS),200000) $(if $(SEED),--seed $(SEED))

# Our clients and command line on Apache Kafka as three brokers, or on `oncelog serve --processes` (ON=oncelog): one after the other
# is killed while they write, copy and ask.
cluster-kills: $(STAMP)
	@$(BIN)/python -m evidence.cluster_kills --kills $(KILLS) $(if $(SEED),--seed $(SEED)) --on $(or $(ON),kafka) --processes $(or $(PROCESSES),3)

# Checkpoints of Spark's own Kafka source, adopted in mid-stream; the connector comes from Maven.
spark-adoption: $(STAMP)
	@$(BIN)/python -m evidence.spark_adoption

# Who may do what, decided by us and by Apache Kafka's own authorizer.
authorizer: $(STAMP)
	@$(BIN)/python -m evidence.authorizer --decisions $(or $(DECISIONS),200000) $(if $(SEED),--seed $(SEED))

# Apache Kafka's own tests of share and streams groups, from Maven, unmodified, on both brokers (docs/compatibility.md); most of an hour.
kafka-tests: $(STAMP)
	@$(BIN)/python -m evidence.compat.kafka_tests $(if $(ONLY),--only $(ONLY)) $(if $(AGAINST),--against $(AGAINST))

conformance: $(STAMP)
	@$(RECORD) conformance -- -m evidence.compat.conformance

# docs/tutorials followed to the letter, Spark and Apache Kafka too.
tutorials: $(STAMP)
	@ONCELOG_TUTORIALS=all $(BIN)/python -m pytest -q -ra evidence/tutorials

# Foreign clients, also by every secured way, and the drills in full; writes docs/compatibility.md. ONLY: clients, by name (`tools`: Apache
# Kafka's, secured). PART: clients, security or drills.
compatibility: $(STAMP)
ifneq ($(filter-out clients security drills,$(PART)),)
	@echo "compatibility: PART=$(PART): expected clients, security or drills" >&2; exit 2
endif
	@$(if $(filter-out clients,$(PART)),,$(BIN)/python -m evidence.compat.clients --save $(if $(ONLY),--only "$(ONLY)"))
	@$(if $(filter-out security,$(PART)),,$(BIN)/python -m evidence.compat.clients.security --save $(if $(ONLY),--only "$(ONLY)"))
	@$(if $(filter-out drills,$(PART)),,$(BIN)/python -m evidence.compat.drills --full --save)

upgrade-drill: $(STAMP)
	@$(BIN)/python -m evidence.upgrade --seconds $(SECONDS_PER_LEVEL)

# Several processes as one cluster (`oncelog serve --processes`), simulated: kills, power cuts, pauses, a bad network.
sim-processes: $(STAMP)
	@$(BIN)/python -m evidence.processes $(if $(SEED),--seed $(SEED),--seeds $(if $(filter file,$(origin SEEDS)),200,$(SEEDS)))

sim-dual-writes: $(STAMP)
	@$(if $(SEED),$(BIN)/python,$(RECORD) sim-dual-writes --) -m evidence.dual_writes.simulate $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --json {json})

dual-writes: $(STAMP)
	@ONCELOG_ALL_STEPS=1 $(BIN)/python -m pytest -q tests/recipes/test_steps.py
	@$(BIN)/python -m evidence.dual_writes.crash --kills $(KILLS) $(if $(MINUTES),--minutes $(MINUTES))

# The parts of docs/proof.md in turn, then build/proof/report.html. PROFILE: short (ten minutes) or full (hours). ONLY: parts, by comma.
proof: $(STAMP)
	@$(BIN)/python -m evidence.proof run --profile $(or $(PROFILE),short) $(if $(ONLY),--only "$(ONLY)")

report: $(STAMP)
	@$(BIN)/python -m evidence.proof report

# An hour of new seeds; Ctrl-C ends it with the report. SEED: where an earlier one began.
soak: $(STAMP)
	@$(BIN)/python -m evidence.proof soak --seconds $(if $(filter file,$(origin SECONDS)),3600,$(SECONDS)) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only "$(ONLY)")

# Certificates exchanged a hundred times under load.
reload: $(STAMP)
	@$(BIN)/python -m evidence.attacks.reloads --reloads $(or $(RELOADS),100)

# A thousand connections that never log in, slow ones, guessers: what a bystander waits before and meanwhile, and memory.
exhaustion: $(STAMP)
	@$(BIN)/python -m evidence.attacks.crowds --seconds $(if $(filter file,$(origin SECONDS)),15,$(SECONDS))
