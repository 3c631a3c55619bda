#!/bin/sh
# Does the library of hooks leave alone what it must, and catch what it should? Builds it with a fake recording and runs
# programs under it. Usage: tests/unit/hooks_test.sh [BUILD_DIRECTORY]; from the top of the source tree.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
out=$(mkdir -p "${1:-$top/build/hooks_test}" && cd "${1:-$top/build/hooks_test}" && pwd)
cuda=${CUDA_HOME:-/usr/local/cuda}/include
cd "$top"

fail() { echo "hooks_test: $*" >&2; exit 1; }
step() { printf '%s\n' "- $*"; }

hook_files='loader lookup unload_hooks driver_calls driver_hooks driver_wrappers context_hooks pool_hooks handle_hooks graph_hooks
            mapping_hooks external_hooks library_hooks array_size shared_lookup runtime_hooks torch_hooks'
guest='-std=c++20 -O2 -g -I. -Wall -Wextra -Wshadow -Wno-missing-field-initializers -fPIC -fvisibility=hidden -fno-exceptions
       -fno-rtti -fno-threadsafe-statics -fasynchronous-unwind-tables -fno-omit-frame-pointer -ftls-model=initial-exec -fno-plt'
host='-std=c++20 -O1 -g -I. -Wall -Wextra'

names() {  # the names in hooks.def that the given macro lists
  printf '#define %s\n#include "interpose/hooks.def"\n' "$1" | g++ -E -P -x c++ -I. - | tr -s ' \n' '\n\n' | grep .
}

build_library() {
  objects=
  for file in $hook_files; do
    g++ $guest -isystem "$cuda" -c "interpose/$file.cpp" -o "$out/$file.o"
    objects="$objects $out/$file.o"
  done
  gcc -c "interpose/lookup_$(uname -m).S" -o "$out/lookup_asm.o"
  g++ $guest -c tests/unit/fake_events.cpp -o "$out/fake_events.o"
  objects="$objects $out/lookup_asm.o $out/fake_events.o"
  g++ -E -P -x c++ -I. interpose/exports.map.in | sed 's/global:/global: vramtrack_fake_*;/' > "$out/exports.map"
  gcc -shared -o "$out/libvramtrack.so" $objects -Wl,--version-script="$out/exports.map" \
    -Wl,-soname,libvramtrack.so -Wl,-z,defs -Wl,-z,now -Wl,-z,relro -Wl,--as-needed
}

build_programs() {
  mkdir -p "$out/lib" "$out/rt12" "$out/rt13"
  g++ $host -fPIC -shared -fvisibility=hidden -isystem "$cuda" -w tests/unit/fake_driver.cpp -Wl,-soname,libcuda.so.1 -o "$out/lib/libcuda.so.1"
  g++ $host -fPIC -shared tests/unit/fake_c10.cpp -Wl,-soname,libc10.so -o "$out/lib/libc10.so"
  g++ $host -fPIC -shared -DFAKE_TORCH_CPU tests/unit/fake_c10.cpp -Wl,-soname,libtorch_cpu.so -o "$out/lib/libtorch_cpu.so"
  g++ $host -fPIC -shared -DFAKE_C10_CUDA tests/unit/fake_c10.cpp -Wl,-soname,libc10_cuda.so -o "$out/lib/libc10_cuda.so"
  g++ $host -fPIC -shared tests/unit/fake_interposer.cpp -o "$out/libinterposer.so"
  g++ $host -isystem "$cuda" tests/unit/hooks_lookup_test.cpp -o "$out/hooks_lookup_test" -lgtest -lgtest_main
  g++ $host tests/unit/hooks_linked.cpp "$out/lib/libcuda.so.1" -Wl,-rpath,"$out/lib" -o "$out/hooks_linked"
  # The tests inside libraries register with the program's GoogleTest, which therefore exports it.
  g++ $host -rdynamic tests/unit/hooks_main.cpp -Wl,--whole-archive -lgtest -Wl,--no-whole-archive -o "$out/hooks_main"
  g++ $host -fPIC -shared tests/unit/hooks_torch_test.cpp -L"$out/lib" -l:libc10.so -l:libtorch_cpu.so -Wl,--no-as-needed -l:libc10_cuda.so -Wl,-rpath,"$out/lib" \
    -o "$out/libtorch_user.so"
  for version in 12 13; do
    echo "libcudart.so.$version { *; };" > "$out/rt$version/map"
    g++ $host -fPIC -shared -DVERSION=$version tests/unit/fake_runtime.cpp -Wl,--version-script="$out/rt$version/map" \
      -Wl,-soname,libcudart.so.$version -o "$out/rt$version/libcudart.so.$version"
    g++ $host -fPIC -shared -DVERSION=$version tests/unit/hooks_runtime_test.cpp "$out/rt$version/libcudart.so.$version" \
      -Wl,-rpath,"$out/rt$version" -o "$out/libruntime_user$version.so"
  done
}

preloaded() { LD_PRELOAD="$out/libvramtrack.so${also:+:$also}" "$@"; }

step build
build_library
build_programs

step 'exports are those of hooks.def, no more and no less'
{ names 'DRIVER_HOOK(name) name'; names 'RUNTIME_HOOK(name, api, parameters, arguments) name'; names 'TORCH_HOOK(name) name'
  names 'LIBRARY_HOOK(kind, name, count, parameters, arguments) name'; names 'LIBRARY_END_HOOK(kind, name, parameters) name'
  echo dlsym; echo dlvsym; echo dlclose; } | sort > "$out/expected"
nm -D --defined-only "$out/libvramtrack.so" | awk '{print $3}' | grep -v vramtrack_fake | sort > "$out/exported"
comm -23 "$out/expected" "$out/exported" | grep . && fail 'listed above: in hooks.def, not exported'
comm -13 "$out/expected" "$out/exported" | grep . && fail 'listed above: exported, not in hooks.def' || true

step 'only libc and the loader are needed'
readelf -d "$out/libvramtrack.so" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vE '^(libc\.so\.6|libdl\.so\.2|ld-linux.*)$' \
  && fail 'listed above: needed' || true

step 'every process survives'
preloaded /bin/true
[ "$(preloaded bash -c 'echo $((1+1)); (exit 3) || echo $?')" = "2
3" ] || fail bash
[ "$(preloaded python3 -c 'import ctypes; print(ctypes.CDLL(None).abs(-4))' 2>&1)" = 4 ] || fail python3

step 'RTLD_NEXT of another preloaded library is its own'
cat > "$out/hello.c" <<'C'
#include <stdio.h>
int main() { puts("hello"); }
C
gcc -O0 -fno-builtin "$out/hello.c" -o "$out/hello"
also="$out/libinterposer.so"
[ "$(preloaded "$out/hello")" = 'interposed: hello' ] || fail 'after us'
[ "$(LD_PRELOAD="$also:$out/libvramtrack.so" "$out/hello")" = 'interposed: hello' ] || fail 'before us'

step 'a linked program reaches the wrappers, other interposers or not'
wanted='cuMemAlloc: device device 1 address 2000 size 10 owner c0
device 1 is Fake, 4096 bytes
cuMemFree: frees device 2000
cuMemFree: freed device 2000 result 0'
also=
[ "$(preloaded "$out/hooks_linked")" = "$wanted" ] || fail linked
also="$out/libinterposer.so"
[ "$(preloaded "$out/hooks_linked" | sed 's/interposed: //')" = "$wanted" ] || fail 'interposer after us'
[ "$(LD_PRELOAD="$also:$out/libvramtrack.so" "$out/hooks_linked" | sed 's/interposed: //')" = "$wanted" ] ||
  fail 'interposer before us'
also=

quietly() { "$@" > "$out/log" 2>&1 || { cat "$out/log"; fail "$*"; }; tail -1 "$out/log"; }
step 'look-ups and wrappers'; quietly env LD_LIBRARY_PATH="$out/lib" LD_PRELOAD="$out/libvramtrack.so" "$out/hooks_lookup_test"
step 'two runtimes in one process'
quietly preloaded "$out/hooks_main" "$out/libruntime_user12.so" "$out/libruntime_user13.so"
step 'PyTorch, without and with its CPU tensors'
quietly preloaded "$out/hooks_main" "$out/libtorch_user.so"
quietly env VRAMTRACK_CPU=1 LD_PRELOAD="$out/libvramtrack.so" "$out/hooks_main" "$out/libtorch_user.so"

step 'the PyTorch of this machine: every CPU block comes and goes'
python=${PYTHON_WITH_TORCH:-/usr/bin/python3}
if "$python" -c 'import torch' 2> /dev/null; then
  quietly env VRAMTRACK_CPU=1 LD_PRELOAD="$out/libvramtrack.so" "$python" tests/unit/hooks_torch_check.py
else
  echo "  skipped: $python has no torch"
fi

step 'the arm64 look-up assembles'
if command -v aarch64-linux-gnu-gcc > /dev/null; then
  aarch64-linux-gnu-gcc -c interpose/lookup_aarch64.S -o "$out/lookup_aarch64.o"
else
  echo '  skipped: no aarch64-linux-gnu-gcc'
fi
echo 'hooks_test: passed'
