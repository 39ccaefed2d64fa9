#!/bin/sh
# Every header compiles alone, in any order, so that no include depends on luck. usage: headers.sh BUILD-FOLDER
set -eu
exec cmake --build "$1" --target all_verify_interface_header_sets -- -k 0
