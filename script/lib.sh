# script/lib.sh -- functions of the other scripts. Sourced, never run.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# as_root COMMAND...: runs it directly for root, else through sudo.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo -- "$@"
    else die "this needs root for: $*; become root or install sudo"
    fi
}

# The Debian packages that building, testing and the demo need, each once.
build_packages="build-essential ca-certificates cmake git ninja-build pkg-config
    libcmocka-dev libconfuse-dev libcurl4-openssl-dev libexpat1-dev libgnutls28-dev libjansson-dev libmicrohttpd-dev
    liboauth2-dev libp11-kit-dev libpq-dev libseccomp-dev libsodium-dev libssl-dev libyaml-dev"
run_packages="postgresql-15 bubblewrap umoci curl openssl skopeo python3-sklearn python3-onnx"
test_packages="rsyslog rsyslog-openssl clang-format lld spin systemd universal-ctags groff-base man-db zsh python3 python3-cryptography python3-jsonschema python3-yaml jq netcat-openbsd procps psmisc softhsm2 slurmctld slurmd slurmrestd slurm-client slurm-wlm-jwt-plugin munge libhoel1.4 libiddawc1.1 librhonabwy1.1 libulfius2.7 liboath0 libcbor0.8 libconfig9 liborcania2.3 libyder2.0 libldap-2.5-0 sqlite3"
# Only script/check needs these.
check_packages="clang clang-tidy cppcheck gcovr"
# Only script/fuzz needs these: libFuzzer, and names in stack traces.
fuzz_packages="clang libclang-rt-14-dev llvm"
# Only script/package needs these; the second list only script/interop package.
package_packages="debhelper dpkg-dev"
package_test_packages="$package_packages lintian debootstrap systemd systemd-container buildah"
# Only script/interop kubernetes needs these.
kubernetes_test_packages="containerd runc containernetworking-plugins busybox-static iproute2"

# source_files: tracked files, and new ones that are not ignored, with changes; names end with NUL.
source_files() {
    (cd "$root" && git ls-files -z --cached --others --exclude-standard |
        xargs -0 sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh)
}

# copy_source FOLDER
copy_source() { source_files | tar -c -C "$root" --null -T - -f - | tar -x -C "$1"; }

missing_packages() {
    local package
    for package in $build_packages $run_packages $test_packages; do
        dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^.i' || printf '%s ' "$package"
    done
}

# install_packages: does nothing if all are installed, so that a machine works offline after its set-up. Debian
# would start services and make a default PostgreSQL cluster on install; both are prevented, and the files that
# were replaced for that are restored. One script at a time does it: apt refuses the second one, and the first one would restore the files under it.
install_packages() {
    local wanted policy=/usr/sbin/policy-rc.d clusters=/etc/postgresql-common/createcluster.d/sijil.conf
    wanted=$(missing_packages)
    [ -n "$wanted" ] || return 0
    say "installing Debian packages: $wanted"
    mkdir -p "$root/build"
    as_root flock "$root/build/packages.lock" sh -eu -c '
        policy=$1 clusters=$2; shift 2
        if [ -e "$policy" ] || [ -L "$policy" ]; then own_policy=no; else own_policy=yes; fi
        undo() { rm -f "$clusters"; [ "$own_policy" = no ] || rm -f "$policy"; }
        trap undo EXIT
        trap "exit 1" HUP INT TERM
        [ "$own_policy" = no ] || { printf "#!/bin/sh\nexit 101\n" > "$policy"; chmod 755 "$policy"; }
        mkdir -p "${clusters%/*}"
        printf "create_main_cluster = false\n" > "$clusters"
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -q
        apt-get install -q -y --no-install-recommends --no-remove "$@"
    ' sh "$policy" "$clusters" $wanted || die "apt-get failed; run it by hand to see why: apt-get install $wanted"
}

# Debian's glewlwyd is the OAuth issuer of tests. It is unpacked and not installed: at the next boot, an installed one would serve all networks, with a
# password that everybody knows. Its libraries are among the test packages.
unpack_glewlwyd() {
    local folder="$root/build/glewlwyd" work
    [ ! -x "$folder/usr/bin/glewlwyd" ] || return 0
    mkdir -p "$root/build"
    work=$(mktemp -d "$root/build/glewlwyd.XXXXXX")
    (cd "$work" && { apt-get download -q glewlwyd glewlwyd-common || { as_root apt-get update -q && apt-get download -q glewlwyd glewlwyd-common; }; } &&
        for package in ./*.deb; do dpkg -x "$package" unpacked; done) > "$work/log" 2>&1 || { cat "$work/log" >&2; die "glewlwyd can't be fetched"; }
    rm -rf "$folder"
    mv "$work/unpacked" "$folder"
    rm -rf "$work"
}

# System users separate secrets (one process for each), and what is trained from all of them; only root needs them.
make_users() {
    [ "$(id -u)" -eq 0 ] || return 0
    local user
    for user in sijil sijil-keyd sijil-run sijil-runner; do
        id "$user" >/dev/null 2>&1 ||
            useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin "$user"
    done
}

# configure PRESET. A build folder has one user at a time, so that scripts can run beside each other.
configure() {
    command -v ccache >/dev/null && export CMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER-ccache}
    mkdir -p "$root/build"
    local log="$root/build/configure-$1.log"
    (cd "$root" && flock "build/$1.lock" cmake --preset "$1") > "$log" 2>&1 || { cat "$log" >&2; die "cmake --preset $1 failed"; }
}

# build PRESET [TARGET...]: configures once, then builds the targets, or everything, as far as changed.
build() {
    local preset=$1; shift
    configure "$preset"
    (cd "$root" && flock "build/$preset.lock" cmake --build --preset "$preset" --target "${@:-all}")
}
