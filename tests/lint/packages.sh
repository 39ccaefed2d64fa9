#!/bin/bash
# Every library, and each tool that builds, has a minimum version that CMake refuses to go below, and a reason.
set -euo pipefail
cd "$(dirname "$0")/../.."
fail=0
cmake_files() { find . -path ./build -prune -o \( -name CMakeLists.txt -o -name '*.cmake' \) -print0; }
complain() { echo "$1"; fail=1; }

# One door: sijil_package(), which needs a version and says REQUIRED.
if cmake_files | xargs -0 grep -nE 'pkg_(check|search)_module|find_(package|library)\(' |
        grep -v -e '^./cmake/SijilModule.cmake:.*find_package(PkgConfig REQUIRED)' \
                -e 'find_package(Python3 3[.0-9]* REQUIRED' \
                -e '^./cmake/SijilModule.cmake:.*pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${ARGN})'; then
    complain "a package is looked up without sijil_package()"
fi
if cmake_files | xargs -0 grep -nE '^ *sijil_package\(' | grep -vE 'sijil_package\([A-Z0-9]+ [a-z0-9.+-]+>=[0-9.]+\) +# .+'; then
    complain "a package without a minimum version or without its reason"
fi
grep -q '^cmake_minimum_required(VERSION [0-9.]*)' CMakeLists.txt || complain "CMake has no minimum version"
grep -q 'VERSION_LESS' cmake/SijilCompiler.cmake || complain "the compiler has no minimum version"

# And the door does refuse: a version that nobody has.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(probe LANGUAGES NONE)' \
    "list(APPEND CMAKE_MODULE_PATH \"$PWD/cmake\")" 'include(SijilModule)' 'sijil_package(JANSSON jansson>=99.1)' > "$work/CMakeLists.txt"
if cmake -S "$work" -B "$work/build" > "$work/log" 2>&1; then complain "CMake takes a library that is too old"; fi
grep -q 'jansson>=99.1' "$work/log" || { cat "$work/log"; complain "CMake does not say which library is too old"; }
exit $fail
