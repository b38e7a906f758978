#!/usr/bin/env bash
# Builds Espalier and runs its tests. Works from any folder and, once the packages are there, without a network.
#   ./test.sh          everything, soaks at a twentieth of their length
#   ./test.sh --soak   the soaks whole
#   ./test.sh --quick  only the release build and its tests
set -uo pipefail
cd "$(dirname "$0")" || exit 1

soak=0.05 quick=
for arg in "$@"; do
  case $arg in
    --soak) soak=1 ;;
    --quick) quick=1 ;;
    *)
      echo "test.sh: unknown flag $arg; the flags are --soak and --quick" >&2
      exit 2
      ;;
  esac
done
export ESP_SOAK_SCALE=$soak
jobs=$(nproc)

summary=() failed=0

# part NAME COMMAND...: runs it, remembers how it went and how long it took.
part() {
  local name=$1 begin=$SECONDS status=0
  shift
  printf '\n=== %s\n' "$name"
  "$@" || status=$?
  local took=$((SECONDS - begin)) verdict=passed
  if [[ $status -ne 0 ]]; then
    verdict=FAILED
    failed=1
  fi
  summary+=("$(printf '%-8s %4d s  %s' "$verdict" "$took" "$name")")
  return "$status"
}

skip() { summary+=("$(printf '%-8s %4s    %s: %s' skipped - "$1" "$2")"); }

# build PRESET [TARGET...]: all targets, or those of the named ones that exist.
build() {
  local preset=$1 wanted=() known target said
  shift
  said=$(cmake --preset "$preset" 2>&1) || { echo "$said"; return 1; }
  if [[ $# -gt 0 ]]; then
    known=$(ninja -C "build/$preset" -t targets all)
    for target in "$@"; do
      if grep -q "^$target: " <<< "$known"; then wanted+=("$target"); fi
    done
    [[ ${#wanted[@]} -gt 0 ]] || return 0
  fi
  ninja -C "build/$preset" -j "$jobs" "${wanted[@]}"
}

# run_all PRESET FILTER PROGRAM...: those of the test programs that the project has, one a core; their output in order.
run_all() {
  local preset=$1 filter=$2 program log status=0 running=0
  shift 2
  log=$(mktemp -d)
  for program in "$@"; do
    [[ -x build/$preset/$program ]] || continue
    if ((++running > jobs)); then wait -n; fi
    {
      case $program in
        *_fuzz) "build/$preset/$program" ;;
        *) "build/$preset/$program" --gtest_brief=1 --gtest_filter="$filter" ;;
      esac > "$log/$program" 2>&1
      echo $? > "$log/$program.status"
    } &
  done
  wait
  for program in "$@"; do
    [[ -e $log/$program.status ]] || continue
    echo "--- $program"
    cat "$log/$program"
    [[ $(< "$log/$program.status") == 0 ]] || status=1
  done
  rm -rf "$log"
  return "$status"
}

# Every folder's tests and every fuzz target but the canary, whose job is to fail.
address_tests=(kernels_test train_test) # the longest first
for folder in src/*/; do
  case $folder in src/kernels/ | src/train/) ;; *) address_tests+=("$(basename "$folder")_test") ;; esac
done
for file in tests/fuzz/*_fuzz.cc; do [[ $file == */canary_fuzz.cc ]] || address_tests+=("$(basename "$file" .cc)"); done
thread_tests=(base_test store_test net_test text_test formats_test train_test engine_test serve_test)

address_sanitizer() {
  export ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
  # What takes long finds no more under a sanitizer.
  run_all asan '*:-*Soak*:*Slow*:*Kill*' "${address_tests[@]}"
}

thread_sanitizer() {
  # OpenMP's runtime (of oneDNN) is not built for this sanitizer; its own locks would be reported as races.
  export TSAN_OPTIONS="ignore_noninstrumented_modules=1 halt_on_error=1 allocator_may_return_null=1"
  run_all tsan '*Thread*:*Readers*:*Loader*:*Checkpoint*:*Async*:*Http*:-*Kill*:*Soak*:*AllocatesNothing*' "${thread_tests[@]}"
}

part "packages" tools/install_deps.sh || exit 1
if part "build, release" build release; then
  part "tests: unit, golden, tidy, end to end, fuzz smoke" \
    ctest --test-dir build/release --output-on-failure --parallel "$jobs" --timeout 1500
  # What a test left out, and why, is not lost in the log.
  while IFS=$'\t' read -r name why; do
    skip "$name" "$why"
  done < <(awk '/: Skipped$/ { getline why } /^\[  SKIPPED \] .* \(/ { print $4 "\t" why }' \
    build/release/Testing/Temporary/LastTest.log)
fi
if [[ -n $quick ]]; then
  skip "address and thread sanitizers" "--quick"
else
  part "build, address and undefined behaviour sanitizers" build asan "${address_tests[@]}" &&
    part "tests under the address sanitizer" address_sanitizer
  part "build, thread sanitizer" build tsan "${thread_tests[@]}" &&
    part "threaded tests under the thread sanitizer" thread_sanitizer
fi
[[ $soak == 1 ]] || skip "soaks" "at a twentieth of their length; ./test.sh --soak runs them whole"

printf '\n=== Summary (%d s)\n' "$SECONDS"
printf '%s\n' "${summary[@]}"
exit $failed
