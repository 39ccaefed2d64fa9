# script/go.sh -- foreign programs that are Go modules, built at pinned versions. Sourced after script/lib.sh, never run.
# shellcheck shell=bash

programs=$root/build/interop
build_seconds=900 # for one program; the largest has over a thousand packages

# Object stores: name, module, version, package.
# shellcheck disable=SC2034
minio_program="minio github.com/minio/minio v0.0.0-20260212201848-7aac2a2c5b7c github.com/minio/minio"
# shellcheck disable=SC2034
versity_program="versitygw github.com/versity/versitygw v1.8.0 github.com/versity/versitygw/cmd/versitygw"

# why_not STATUS LOG: the reason why a program was not built.
why_not() {
    local last
    last=$(tail -n 1 "$2" | cut -c1-200)
    if [ "$1" -eq 124 ]; then
        printf 'it took more than %s s to build' "$build_seconds"
    elif grep -qE 'dial tcp|no such host|connection refused|i/o timeout|handshake|reading https|unrecognized import path' "$2"; then
        printf 'the Go module can not be fetched: %s' "$last"
    else
        printf 'it does not build here: %s' "$last"
    fi
}

# build_go NAME MODULE VERSION PACKAGE [TAGS]: puts the program into $programs, or reports why not.
build_go() {
    local name=$1 module=$2 version=$3 package=$4 tags=${5:-} folder status=0
    [ ! -x "$programs/$name-$version" ] || { ln -sf "$name-$version" "$programs/$name"; return 0; }
    folder=$(mktemp -d)
    printf 'module interop\ngo 1.24\nrequire %s %s\n' "$module" "$version" > "$folder/go.mod"
    (cd "$folder" && timeout "$build_seconds" go build -mod=mod -tags "$tags" -o "$programs/$name-$version" "$package") \
        > "$folder/log" 2>&1 || status=$?
    if [ "$status" -eq 0 ]; then
        ln -sf "$name-$version" "$programs/$name"
    else
        say "left out: $name $version: $(why_not "$status" "$folder/log")"
    fi
    rm -rf "$folder"
}

# get_go LIST: builds the programs of the list, if their modules can be fetched; older builds are kept. A line is
# name, module, version, package, and build tags if there are any.
get_go() {
    local name module version package tags
    mkdir -p "$programs"
    while read -r name module version package tags; do
        [ -n "$name" ] || continue
        rm -f "${programs:?}/$name"
        if [ -x "$programs/$name-$version" ] || command -v go > /dev/null; then
            build_go "$name" "$module" "$version" "$package" "$tags"
        else
            say "left out: $name $version: there is no go (Debian's golang-go is too old for it)"
        fi
    done <<< "$1"
}
