# make demo   install what is missing, build, optimise real graphs, prove the speed-up, write demo/report.html
# make test   install what is missing, build and run every test
# make lint   check format, Python, commit subjects, and C++ for bugs (make test does so too)
# make hooks  let git refuse a commit whose subject is longer than 72 characters
# All can be run again at any time; what is done is not done twice.

JOBS  ?= $(shell nproc)
BUILD ?= build

export SMELT_TEST_BEGUN := $(shell date +%s)

.PHONY: help demo test lint hooks setup setup-test build build-test clean
help:
	@sed -n 's/^# \(make .*\)/  \1/p' Makefile

setup:
	@scripts/setup.sh build

setup-test:
	@scripts/setup.sh build test

build: setup
	@scripts/build.sh $(BUILD) $(JOBS)

build-test: setup-test
	@scripts/build.sh $(BUILD) $(JOBS) --tests

demo: build
	@scripts/demo.sh $(BUILD)

test: build-test
	@scripts/test.sh $(BUILD) $(JOBS)

lint: setup-test
	@scripts/lint.sh $(BUILD) $(JOBS)

hooks:
	@git config core.hooksPath scripts/hooks

clean:
	rm -rf $(BUILD) demo/*.html demo/models
