# Every target is what CI runs; `make check` passes all tests of the default build.
CARGO ?= cargo
NEXTEST := $(shell $(CARGO) nextest --version >/dev/null 2>&1 && echo yes)

.PHONY: check format lint test docs deny bench bench-core test-slow test-train models-radio models-depth

check: format lint test docs deny

format:
	$(CARGO) fmt --all -- --check

lint:
	$(CARGO) clippy --all-targets -- -D warnings

# Doc tests run on their own because nextest does not know them.
test:
ifeq ($(NEXTEST),yes)
	$(CARGO) nextest run --no-fail-fast
else
	$(CARGO) test --no-fail-fast --lib --bins --tests
endif
	$(CARGO) test --doc

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --document-private-items

# Licences, bans and sources need no network; the advisory database does, and its failure is told, not hidden.
deny:
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
		$(CARGO) deny check licenses bans sources; \
	else \
		echo "skipped: cargo-deny is not installed (cargo install cargo-deny); crates/gpara-cli/tests/project checks the licences"; \
	fi

# Slow tests carry #[ignore = "reason"].
test-slow:
	$(CARGO) test --release -- --ignored

bench:
	$(CARGO) test --release -- --ignored bench_ --nocapture
	scripts/bench-onnxruntime.sh

# One JSON line a row on stdout: the numerical core against its rivals (docs/benchmarks.md). ONLY=mean runs one group,
# ALONE=1 leaves the rivals out.
bench-core:
	@cd bench && $(CARGO) run --release --quiet -- $(if $(ONLY),--only $(ONLY)) $(if $(ALONE),--alone)

# Builds against libtorch: about 530 MB from PyPI on the first run.
test-train:
	scripts/test-train.sh

# All networks of a task, trained and exported to runs/models; stops after LIMIT seconds, and the same command goes on.
# The program is built by `cargo build --release -p gpara-train` (see scripts/get-libtorch.sh).
RADIO_DATA ?= ../shared/data/radio
DEPTH_DATA ?= ../shared/data/depth

models-radio:
	scripts/train-models.sh radio $(RADIO_DATA) $(LIMIT)

models-depth:
	scripts/train-models.sh depth $(DEPTH_DATA) $(LIMIT)
