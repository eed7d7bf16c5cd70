# make demo   the demo on real flights; writes demo-report.html
# make test   every test, in Rust and in Python
# make schedules   of these, only publication of commits under many orders of its threads; builds the engine once more
# make lint   formatting, lints, types, spelling and workflows; each finding is an error
# make bench  this build beside SQLite, as a table and JSON lines; make bench BENCH="reads --rows 1000000"
# make docs   the pages as a site, with the Rust and the Python API, in target/site
# make wheel  the Python package to install elsewhere, in dist; optimised, which takes about 15 minutes
#
# The extension is built with the profile of the tests, so that everything is compiled once, and stripped. The benches
# are built with --release, without the SQL that they do not need.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
# Where rustup installs, in case the shell does not look there.
export PATH := $(PATH):$(HOME)/.cargo/bin
RUST_SOURCES := $(shell find crates python/src -name '*.rs' -o -name Cargo.toml) python/build.rs python/Cargo.toml Cargo.toml Cargo.lock

.PHONY: demo test schedules lint bench docs extension wheel announcement tools clean

demo: extension
	@PYTHONPATH=python/examples $(BIN)/python -m flights_demo

test: doing := runs every test, in Rust and in Python: 20 to 25 minutes from a clean checkout
# Some tests wait, for a slow disk or for time to pass. With a third one at once, two cores are busy meanwhile.
ifeq ($(shell getconf _NPROCESSORS_ONLN),2)
test: export RUST_TEST_THREADS ?= 3
endif
test: announcement extension $(STAMP)/spark-packages
	cargo test --workspace
	cd python && ../$(BIN)/python -m pytest -n 2 --dist loadgroup
	$(MAKE) schedules

schedules: | tools
	cargo test --workspace --features drillcore/shuttle --test publication

lint: $(STAMP)/lint-packages
	cargo fmt --all --check
	$(BIN)/typos
	$(BIN)/ruff format --check python
	$(BIN)/ruff check python
	cd python && ../$(BIN)/mypy
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/zizmor --offline --quiet .github/workflows
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps

bench: doing := compares this build with SQLite: about 6 minutes, and an optimised build first
bench: announcement tools
	cargo run --release -p drillcore-bench -- $(BENCH)

# Links between pages are as in the repository; those to source code go to the repository.
docs: doing := builds the pages and the API of both languages as a site: about 3 minutes, and the extension first
docs: announcement extension $(STAMP)/docs-tools
	rm -rf target/book target/site
	mkdir -p target/book/src/docs
	cp docs/book.toml target/book/
	cp docs/SUMMARY.md README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md SECURITY.md target/book/src/
	cp $(filter-out docs/SUMMARY.md,$(wildcard docs/*.md)) target/book/src/docs/
	perl -pi -e 's#\]\((\.\./)*((crates|python|\.github|\.ci)/[^)]*|Makefile|Cargo.toml)\)#](https://github.com/drillcore/drillcore/blob/main/\2)#g' \
		target/book/src/*.md target/book/src/docs/*.md
	perl -pi -e 's#\]\((?!\.\./)#](docs/#; s#\]\(\.\./#](#' target/book/src/SUMMARY.md
	target/mdbook/bin/mdbook build target/book --dest-dir "$(CURDIR)/target/site"
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet -p drillcore --no-deps
	cp -r target/doc target/site/rust
	$(BIN)/pdoc --output-directory target/site/python drillcore
	@echo "The site is in target/site: open target/site/index.html"

$(STAMP)/docs-tools: $(STAMP)/packages
	cargo install mdbook --version 0.5.4 --locked --root target/mdbook
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pdoc>=15' typing_extensions
	@touch $@

extension: $(STAMP)/extension

$(STAMP)/extension: $(STAMP)/packages $(RUST_SOURCES) python/pyproject.toml
	@test -e target/debug/deps || echo "Building the Python package with all that it stands on: 8 to 12 minutes on 2 cores, once."
	VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/maturin develop --strip --manifest-path python/Cargo.toml
	@touch $@

# abi3, so one wheel serves Python 3.10 and all later ones.
wheel: doing := builds an optimised wheel in dist: about 15 minutes
wheel: announcement $(STAMP)/packages
	$(BIN)/maturin build --release --compression-level 9 --manifest-path python/Cargo.toml --out dist

$(STAMP)/packages: python/requirements.txt | tools
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r python/requirements.txt
	@mkdir -p $(STAMP) && touch $@

$(STAMP)/lint-packages: python/lint-requirements.txt $(STAMP)/packages
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r python/lint-requirements.txt
	@touch $@

# pyspark is 430 MB, which only the tests of Spark need. They are skipped without it, and without Java.
$(STAMP)/spark-packages: python/spark-requirements.txt $(STAMP)/packages
	@if command -v java >/dev/null || test -x "$$JAVA_HOME/bin/java"; then \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $< && touch $@; \
	else \
		echo "Java 17 or later is missing, so the tests of Spark are skipped: for example 'apt-get install openjdk-17-jre-headless'"; \
	fi

# What a target that takes minutes does, and how long on 2 cores.
announcement:
	@echo "make $(MAKECMDGOALS) $(doing), on 2 cores"

tools:
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust 1.88 or later, see https://rustup.rs" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "cc is missing: install a C compiler, for example 'apt-get install build-essential'" >&2; exit 1; }
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || \
		{ echo "Python 3.10 or later with venv is missing: for example 'apt-get install python3 python3-venv', or make PYTHON=/path/to/python3" >&2; exit 1; }

clean:
	rm -rf $(VENV) target dist .demo demo-report.html
