# vramtrack's only build file. `make help` lists what there is.

BUILD     ?= build
PREFIX    ?= /usr/local
DESTDIR   ?=
CUDA_HOME ?= /usr/local/cuda
CXX       ?= g++
CC        ?= gcc
NVCC      ?= $(CUDA_HOME)/bin/nvcc
OPT       ?= -O2
SANITIZE  ?=
WERROR    ?= $(if $(CI),-Werror)

ifneq ($(V),1)
Q := @
endif

warnings  := -Wall -Wextra -Wshadow -Wno-missing-field-initializers $(WERROR)
common    := -std=c++20 $(OPT) -g -MMD -MP -I. $(warnings) $(if $(SANITIZE),-fsanitize=$(SANITIZE))
arch      := $(shell uname -m)

all: $(BUILD)/lib/libvramtrack.so $(BUILD)/bin/vramtrack
.PHONY: all help
help:
	@echo 'make            build/bin/vramtrack and build/lib/libvramtrack.so'
	@echo 'make demo       install what is missing, build, find two leaks in a PyTorch script'
	@echo 'make test       install what is missing, build, run all tests'
	@echo 'make check      make test without the installing'
	@echo 'make deps       only install what is missing'
	@echo 'make sim        the simulated CUDA in $(BUILD)/sim'
	@echo 'make bench      what recording costs'
	@echo 'make install    to PREFIX=$(PREFIX), below DESTDIR'
	@echo 'make gpu-bundle $(BUILD)/gpu: all that a machine with a GPU and nothing installed needs for tests/gpu/run'
	@echo 'make clean'
	@echo
	@echo 'Variables: BUILD, PREFIX, DESTDIR, CUDA_HOME, CXX, OPT, SANITIZE=address,undefined, WERROR=-Werror, V=1'

# --- set-up: Debian 12, Ubuntu 24.04 and their like ---------------------------------------------------------------------
build_packages := g++ binutils libunwind-dev libdw-dev libelf-dev libfmt-dev libcli11-dev nlohmann-json3-dev
test_packages  := python3 libgtest-dev libbenchmark-dev
# A distribution may not have these: without them the demo, or the tests that want them, say so and are skipped.
torch_package  := python3-torch
cross_package  := gcc-aarch64-linux-gnu

# Installed through apt if missing; a second list after -- may be missing.
deps:
	@.ci/install-packages $(build_packages) $(test_packages) -- $(torch_package) $(cross_package)

# The interposer's wrappers are declared from CUDA's own headers; nothing of CUDA is linked.
cuda-headers:
	@test -f $(CUDA_HOME)/include/cuda.h || test -f /usr/include/cuda.h || { \
	  echo 'vramtrack: no cuda.h in $(CUDA_HOME)/include: install the CUDA toolkit or say make CUDA_HOME=/where/it/is'; exit 1; }
.PHONY: deps cuda-headers

# Uses the caller's -j if there is one.
again = +$(Q)$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

# --- the demo -----------------------------------------------------------------------------------------------------------
# A GPU PyTorch of the user's own if there is one, else Debian's on the CPU.
gpu_torch := python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null

demo:
	@.ci/install-packages $(build_packages) -- $$($(gpu_torch) || echo $(torch_package))
	@test -x $(BUILD)/bin/vramtrack || echo 'vramtrack: demo: building, which takes a minute or two'
	$(again) all
	@if $(gpu_torch); then \
	  echo 'vramtrack: demo: samples/demo_train.py on the GPU'; python=python3; cpu=; export DEVICE=cuda; \
	elif /usr/bin/python3 -c 'import torch' 2>/dev/null; then \
	  echo 'vramtrack: demo: no GPU with a CUDA PyTorch here: samples/demo_train.py on the CPU (--cpu) with python3-torch'; \
	  python=/usr/bin/python3; cpu=--cpu; export DEVICE=cpu; \
	else echo 'vramtrack: demo: no PyTorch here: apt-get install $(torch_package)'; exit 1; fi; \
	mkdir -p $(BUILD)/demo; rm -f $(BUILD)/demo/*.vtrk; \
	echo "\$$ $(BUILD)/bin/vramtrack run $$cpu -- $$python samples/demo_train.py"; \
	$(BUILD)/bin/vramtrack run $$cpu -o $(BUILD)/demo -- $$python samples/demo_train.py
.PHONY: demo

# --- interpose: a guest in a stranger's process -----------------------------------------------------------------------
# No exceptions, no RTTI, no libstdc++; only libc is NEEDED. Unwind tables stay: the program's exceptions pass through us.
interpose_flags := $(common) -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -fno-threadsafe-statics \
                   -fasynchronous-unwind-tables -fno-omit-frame-pointer -ftls-model=initial-exec -fno-plt \
                   -isystem $(CUDA_HOME)/include
interpose_src := $(wildcard interpose/*.cpp) interpose/lookup_$(arch).S
interpose_obj := $(patsubst %,$(BUILD)/obj/%.o,$(interpose_src))
$(interpose_obj): | cuda-headers

$(BUILD)/obj/interpose/%.cpp.o: interpose/%.cpp
	@mkdir -p $(@D)
	$(Q)$(CXX) $(interpose_flags) -c $< -o $@
$(BUILD)/obj/interpose/%.S.o: interpose/%.S
	@mkdir -p $(@D)
	$(Q)$(CC) -MMD -MP -I. -c $< -o $@

$(BUILD)/exports.map: interpose/exports.map.in interpose/hooks.def
	@mkdir -p $(@D)
	$(Q)$(CXX) -E -P -x c++ -I. $< -o $@

$(BUILD)/lib/libvramtrack.so: $(interpose_obj) $(BUILD)/exports.map | $(BUILD)/lib/libunwind.so.8
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -o $@ $(interpose_obj) -Wl,--version-script=$(BUILD)/exports.map \
	  -Wl,-soname,libvramtrack.so -Wl,-z,defs -Wl,-z,now -Wl,-z,relro -Wl,--as-needed \
	  $(if $(SANITIZE),-fsanitize=$(SANITIZE))

# libunwind is opened at run time, from beside the library, so that tracing does not depend on what a machine has.
$(BUILD)/lib/libunwind.so.8:
	@mkdir -p $(@D)
	$(Q)cp -L "$$($(CC) -print-file-name=libunwind.so.8)" $@

# --- report and tools ----------------------------------------------------------------------------------------------------
report_src := $(wildcard report/*.cpp report/*/*.cpp)
report_obj := $(patsubst %,$(BUILD)/obj/%.o,$(report_src))
tools_obj  := $(patsubst %,$(BUILD)/obj/%.o,$(wildcard tools/*.cpp))

$(BUILD)/obj/report/%.cpp.o: report/%.cpp
	@mkdir -p $(@D)
	$(Q)$(CXX) $(common) -c $< -o $@
$(BUILD)/obj/tools/%.cpp.o: tools/%.cpp
	@mkdir -p $(@D)
	$(Q)$(CXX) $(common) -c $< -o $@
$(BUILD)/libreport.a: $(report_obj)
	$(Q)rm -f $@ && ar rcs $@ $^
$(BUILD)/bin/vramtrack: $(tools_obj) $(BUILD)/libreport.a
	@mkdir -p $(@D)
	$(Q)$(CXX) $(common) -o $@ $(tools_obj) $(BUILD)/libreport.a -lfmt -ldw -lelf

# --- the simulated CUDA ----------------------------------------------------------------------------------------------------
-include tests/sim/sim.mk

# --- tests --------------------------------------------------------------------------------------------------------------
# tests/unit/X_test.cpp is a program of its own over the recording side: the linker takes from the archive what the test names,
# unless a fake beside the test defines it. The report's rooms share one program. tests/e2e drives the real command.
test_obj = $(patsubst %,$(BUILD)/obj/%.o,$(1))
gtest   := -lgtest_main -lgtest -pthread

$(BUILD)/obj/tests/%.cpp.o: tests/%.cpp
	@mkdir -p $(@D)
	$(Q)$(CXX) $(common) -fPIC -isystem $(CUDA_HOME)/include -c $< -o $@
# Without the functions that stand in for others' (dlsym, cuMemAlloc, ...): a test is to call the real ones.
$(BUILD)/libinterpose.a: $(filter-out %_hooks.cpp.o $(BUILD)/obj/interpose/lookup%,$(interpose_obj))
	$(Q)rm -f $@ && ar rcs $@ $^

interpose_tests := $(patsubst tests/unit/%.cpp,$(BUILD)/tests/%,$(filter-out tests/unit/hooks_%,$(wildcard tests/unit/*_test.cpp)))
$(interpose_tests): $(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.cpp.o $(BUILD)/libinterpose.a
	@mkdir -p $(@D)
	$(Q)$(CXX) $(common) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(gtest) -ldl

# Two modules that come and go at the same addresses, with frames of other sizes.
$(BUILD)/tests/native_stack_test: $(BUILD)/obj/tests/unit/fake_interner.cpp.o | \
  $(BUILD)/tests/native_stack_plugin_a.so $(BUILD)/tests/native_stack_plugin_b.so
$(BUILD)/tests/native_stack_plugin_b.so: plugin_flags := -DPLUGIN_BYTES=4096
$(BUILD)/tests/native_stack_plugin_%.so: tests/unit/native_stack_plugin.cpp
	@mkdir -p $(@D)
	$(Q)$(CXX) $(common) -fPIC -shared $(plugin_flags) -o $@ $<

report_tests := $(BUILD)/tests/report_test
$(report_tests): $(call test_obj,$(wildcard tests/unit/report/*.cpp tests/unit/diagnose/*.cpp tests/unit/tools/*.cpp)) \
                 $(BUILD)/obj/tools/staging.cpp.o $(BUILD)/libreport.a
	@mkdir -p $(@D)
	$(Q)$(CXX) $(common) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(gtest) -lfmt -ldw -lelf

# python_frames_test runs python_frames_check.py, which opens this, under each Python interpreter of the machine.
frames_library := $(BUILD)/tests/python_frames_library.so
$(frames_library): $(call test_obj,tests/unit/python_frames_library.cpp tests/unit/fake_interner.cpp \
                                   $(wildcard interpose/python_*.cpp))
	@mkdir -p $(@D)
	$(Q)$(CXX) $(common) -shared -o $@ $^ -Wl,-z,defs -ldl
$(BUILD)/tests/python_frames_test: $(BUILD)/obj/tests/unit/fake_interner.cpp.o | $(frames_library)

compiled_tests := $(interpose_tests) $(report_tests) $(SIM_TEST)
script_tests   := tests/unit/includes_check.py 'tests/unit/hooks_test.sh $(BUILD)/hooks_test' $(wildcard tests/e2e/*_test.py)

test: deps
	@test -x $(BUILD)/bin/vramtrack || echo 'vramtrack: test: building and testing, which takes some minutes'
	$(again) check
check: all sim $(compiled_tests)
	$(Q)BUILD=$(BUILD) CUDA_HOME=$(CUDA_HOME) tests/run -j$(shell nproc) $(compiled_tests) $(script_tests)
.PHONY: test check

# --- bench --------------------------------------------------------------------------------------------------------------
# What recording costs, as tables; no timed test. tests/bench/recorder_bench.cpp tells the parts apart.
bench_programs := $(patsubst tests/bench/%.cpp,$(BUILD)/bench/%,$(wildcard tests/bench/*_bench.cpp))

$(BUILD)/bench/simulator_bench: tests/bench/simulator_bench.cpp | sim
	@mkdir -p $(@D)
	$(Q)$(CXX) $(common) -isystem $(CUDA_HOME)/include -o $@ $< -L$(BUILD)/sim -lcudart
$(BUILD)/bench/recorder_bench: $(call test_obj,tests/bench/recorder_bench.cpp) $(BUILD)/libinterpose.a
	@mkdir -p $(@D)
	$(Q)$(CXX) $(common) -o $@ $^ -lbenchmark -pthread -ldl
$(BUILD)/bench/cpu_reports.so: tests/bench/cpu_reports.cpp
	@mkdir -p $(@D)
	$(Q)$(CXX) $(common) -fPIC -shared -o $@ $<
bench: all sim $(bench_programs) $(BUILD)/bench/cpu_reports.so
	$(Q)BUILD=$(BUILD) tests/bench/run
.PHONY: bench

# --- install, bundle, clean -----------------------------------------------------------------------------------------------
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/vramtrack
	install $(BUILD)/bin/vramtrack $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(BUILD)/lib/libvramtrack.so $(BUILD)/lib/libunwind.so.8 $(DESTDIR)$(PREFIX)/lib/vramtrack

# The command linked to find the libraries it needs beside itself, for a machine that lacks them. They are found by the
# command's own DT_RPATH, which its dependencies inherit (a RUNPATH they would not) and the traced program never sees.
gpu-bundle: all
	$(Q)rm -rf $(BUILD)/gpu && mkdir -p $(BUILD)/gpu/bin $(BUILD)/gpu/lib/command
	$(Q)cp $(BUILD)/lib/libvramtrack.so $(BUILD)/lib/libunwind.so.8 $(BUILD)/gpu/lib
	$(Q)$(CXX) $(common) -o $(BUILD)/gpu/bin/vramtrack $(tools_obj) $(BUILD)/libreport.a -lfmt -ldw -lelf \
	  -s -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../lib/command'
	$(Q)cp -L $$(ldd $(BUILD)/bin/vramtrack | awk '$$3 ~ "^/" && $$1 !~ "^lib(c|m|dl|rt|pthread|stdc\\+\\+|gcc_s)\\.so" { print $$3 }') \
	  $(BUILD)/gpu/lib/command
	@du -sh $(BUILD)/gpu

clean:
	rm -rf $(BUILD)
.PHONY: install gpu-bundle clean

-include $(shell find $(BUILD) -name "*.d" 2>/dev/null)
