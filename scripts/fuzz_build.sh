# Sourced by fuzz.sh and fuzz_lines.sh, after steps.sh.

# build_fuzzer BUILD_DIR FOLDER JOBS PYTHON OPTION…: builds model_fuzz in FOLDER with clang++ beside the ordinary build in BUILD_DIR,
# whose operators and ONNX sources it links.
build_fuzzer() {
  local build=$1 folder=$2 jobs=$3 python=$4 clang
  shift 4
  clang=$(command -v clang++ || command -v clang++-14 || true)
  [ -n "$clang" ] || die "needs clang++ with libFuzzer and OpenMP (packages clang, libclang-rt-dev, libomp-dev)"
  [ -e "$build/libsmelt_ops.a" ] || die "$build has no libsmelt_ops.a; build there first"
  mkdir -p "$folder"
  step "building the fuzzer in $folder with $jobs jobs"
  cmake -S . -B "$folder" -G Ninja -DCMAKE_CXX_COMPILER="$clang" -DSMELT_FUZZ=ON -DSMELT_FUZZ_PREBUILT="$build" \
    -DSMELT_TESTS=OFF -DSMELT_PYTHON=OFF -DSMELT_CLI=OFF -DPython_EXECUTABLE="$python" "$@" >"$folder/configure.log" 2>&1 ||
    { tail -5 "$folder/configure.log"; die "cmake failed ($folder/configure.log)"; }
  ninja -C "$folder" -j "$jobs" model_fuzz || die "the build in $folder failed: the first error is above"
}
