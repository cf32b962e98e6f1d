# Every target but help sets itself up: it needs Python 3.11 or newer, and make.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.installed
BENCH := .venv/.installed-bench

.PHONY: help demo test coverage check docs dist bench tables streams competitions intervals memory notebooks notebooks-check

TABLES := etth1 etth2 ettm1 ettm2 weather

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## forecast a week of bicycle rentals and draw it, offline
	$(BIN)/python experiments/demo.py

test: $(READY) ## run all tests but the slow ones
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "not slow" -n auto --maxprocesses 8 --dist worksteal

coverage: $(READY) ## run the same tests and list the lines of the package that none of them reaches
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "not slow" -n auto --maxprocesses 8 --dist worksteal --cov --cov-report=term-missing

check: $(READY) docs ## lint, formatting, types and documentation
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

notebooks: $(READY) ## execute the notebooks in place; then read what their words conclude
	OMP_NUM_THREADS=1 $(BIN)/python experiments/execute_notebooks.py

notebooks-check: $(READY) ## execute copies of the notebooks; an error or other figures than they show fail
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow tests/experiments/test_notebooks.py

docs: $(READY) ## build the documentation into site/; a broken reference fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

dist: $(READY) ## build the source archive and the wheel into dist/, and use the wheel in an environment of its own
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist
	PYTHON=$(PYTHON) .ci/release

bench: $(BENCH) ## time and memory on this machine, beside other packages
	$(BIN)/python experiments/speed/efficiency.py --cpu
	$(BIN)/python experiments/speed/frames_bench.py
	$(BIN)/python experiments/speed/default_fit.py
	$(BIN)/python experiments/speed/update.py
	$(BIN)/python experiments/speed/partitions.py

tables: $(READY) ## measure the rows that the benchmark's CSVs lack (hours), and print its tables
	for name in $(TABLES); do \
		$(BIN)/python experiments/benchmark/long_term.py experiments/benchmark/$$name.toml --columns i ii iii || exit; \
	done
	$(BIN)/python experiments/benchmark/tables.py $(TABLES)
	$(BIN)/python experiments/benchmark/tables.py $(TABLES) --summary

streams: $(READY) ## measure the rows of streams that their CSV lacks (hours), and print their tables
	$(BIN)/python experiments/benchmark/stream.py S1 S2
	$(BIN)/python experiments/benchmark/stream.py S1 S2 --summary

competitions: $(BENCH) ## measure the rows of the M3 and M4 competitions that their CSV lacks, and print their tables
	$(BIN)/python experiments/benchmark/competitions.py

intervals: $(BENCH) ## measure the coverage of intervals that their CSV lacks (an hour), and print its tables
	$(BIN)/python experiments/benchmark/intervals.py

memory: $(READY) ## measure what the memory does: recall, permutations, needle, Table 5, throughput (hours)
	$(BIN)/python experiments/benchmark/recall.py recall
	$(BIN)/python experiments/benchmark/recall.py permutations
	$(BIN)/python experiments/benchmark/needle.py
	$(BIN)/python experiments/benchmark/table5.py
	$(BIN)/python experiments/speed/throughput.py

# A stamp is written last, so an interrupted installation starts again.
$(READY): setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(BENCH): $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@
