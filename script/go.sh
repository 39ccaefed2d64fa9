# script/go.sh -- foreign programs that are Go modules, built at pinned versions. Sourced after script/lib.sh, never run.
# shellcheck shell=bash

programs=$root/build/interop
built_programs=${GO_PROGRAMS:-$programs} # their names have their versions, so clones may share them: to link seven takes a minute
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
    [ ! -x "$built_programs/$name-$version" ] || { ln -sf "$built_programs/$name-$version" "$programs/$name"; return 0; }
    mkdir -p "$built_programs"
    folder=$(mktemp -d)
    printf 'module interop\ngo 1.24\nrequire %s %s\n' "$module" "$version" > "$folder/go.mod"
    (cd "$folder" && timeout "$build_seconds" nice -n 3 go build -mod=mod -tags "$tags" -o "$folder/built" "$package") \
        > "$folder/log" 2>&1 || status=$?
    if [ "$status" -eq 0 ]; then
        cp "$folder/built" "$built_programs/$name-$version.$$" # another clone may do the same now
        mv -T "$built_programs/$name-$version.$$" "$built_programs/$name-$version"
        ln -sf "$built_programs/$name-$version" "$programs/$name"
    else
        say "left out: $name $version: $(why_not "$status" "$folder/log")"
    fi
    rm -rf "$folder"
}

# get_go LIST: builds the programs of the list, if their modules can be fetched; older builds are kept. A line is
# name, module, version, package, and build tags if there are any. Of lines with one name that follow each other, the first counts that can be had.
get_go() {
    local name module version package tags before=
    mkdir -p "$programs"
    while read -r name module version package tags; do
        [ -n "$name" ] || continue
        [ "$name" != "$before" ] || [ ! -x "$programs/$name" ] || continue
        before=$name
        rm -f "${programs:?}/$name"
        if [ -x "$built_programs/$name-$version" ] || command -v go > /dev/null; then
            build_go "$name" "$module" "$version" "$package" "$tags"
        else
            say "left out: $name $version: there is no go (Debian's golang-go is too old for it)"
        fi
    done <<< "$1"
}

# build_own NAME MODULE@VERSION...: tests/interop/NAME/main.go with these modules, into $programs/NAME, or says why not. The program is kept under a digest of what it
# is made of.
build_own() {
    local name=$1 source=$root/tests/interop/$1/main.go kept folder status=0
    shift
    mkdir -p "$programs" "$built_programs"
    rm -f "${programs:?}/$name"
    kept=$built_programs/$name-$({ printf '%s\n' "$@"; cat "$source"; } | sha256sum | cut -c1-16)
    if [ ! -x "$kept" ]; then
        command -v go > /dev/null || { say "left out: there is no go for tests/interop/$name"; return 1; }
        folder=$(mktemp -d)
        cp "$source" "$folder/"
        { printf 'module interop\ngo 1.25\n'; printf 'require %s\n' "${@/@/ }"; } > "$folder/go.mod"
        (cd "$folder" && timeout "$build_seconds" nice -n 3 go build -mod=mod -o "$folder/built" main.go) > "$folder/log" 2>&1 || status=$?
        if [ "$status" -eq 0 ]; then
            cp "$folder/built" "$kept.$$" # another clone may do the same now
            mv -T "$kept.$$" "$kept"
        else
            say "left out: $*: $(why_not "$status" "$folder/log")"
        fi
        rm -rf "$folder"
    fi
    [ "$status" -eq 0 ] && ln -sf "$kept" "$programs/$name"
}

# A cluster's programs: Kubernetes' staging modules are named there by folders, and have versions of their own.
# shellcheck disable=SC2034
kubernetes_parts="etcd kube-apiserver kube-controller-manager kube-scheduler kubelet"
kubernetes_version=1.35.4
etcd_version=3.6.5

# kubernetes_module FOLDER: writes the go.mod of a build of Kubernetes.
kubernetes_module() {
    local own minor=${kubernetes_version#1.} stage
    own=$(cd "$1" && go mod download -json "k8s.io/kubernetes@v$kubernetes_version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
    [ -n "$own" ] || return 1
    {
        printf 'module interop\ngo 1.25.0\nrequire k8s.io/kubernetes v%s\n' "$kubernetes_version"
        grep -oE 'k8s.io/[a-z-]+ => ' "$own" | while read -r stage _; do printf 'replace %s => %s v0.%s\n' "$stage" "$stage" "$minor"; done
    } > "$1/go.mod"
}

# build_part FOLDER-OF-PROGRAMS NAME SECONDS: one program, in the present folder, which has a go.mod.
build_part() {
    local stamp=k8s.io/component-base/version package=k8s.io/kubernetes/cmd/$2
    [ "$2" != etcd ] || package=go.etcd.io/etcd/server/v3
    [ -x "$1/$2" ] || timeout "$3" nice -n 3 go build -mod=mod -trimpath -o "$1/$2.new" \
        -ldflags "-s -w -X $stamp.gitVersion=v$kubernetes_version -X $stamp.gitMajor=1 -X $stamp.gitMinor=${kubernetes_version:2:2}" "$package" || return
    [ -x "$1/$2" ] || mv "$1/$2.new" "$1/$2"
}

# get_device_plugin: a plugin of devices for the kubelet (tests/interop/plugin), into $programs/device-plugin, or says why not.
get_device_plugin() {
    local work status=0
    [ ! "$programs/device-plugin" -nt "$root/tests/interop/plugin/main.go" ] || return 0
    command -v go > /dev/null || { say "left out: there is no go for a plugin of devices"; return 0; }
    work=$(mktemp -d)
    kubernetes_module "$work" > "$work/log" 2>&1 || status=1
    cp "$root/tests/interop/plugin/main.go" "$work/"
    printf 'require k8s.io/kubelet v0.%s\n' "${kubernetes_version#1.}" >> "$work/go.mod"
    [ "$status" -ne 0 ] || (cd "$work" && timeout "$build_seconds" nice -n 3 go build -mod=mod -trimpath -o "$programs/device-plugin" .) >> "$work/log" 2>&1 || status=$?
    [ "$status" -eq 0 ] || say "left out: a plugin of devices: $(why_not "$status" "$work/log")"
    rm -rf "$work"
}

kubernetes_folder() { printf '%s\n' "${KUBERNETES_PROGRAMS:-$programs/kubernetes-$kubernetes_version}"; }

# Whether the cluster's programs are built already.
has_kubernetes() {
    local name
    for name in $kubernetes_parts; do [ -x "$(kubernetes_folder)/$name" ] || return 1; done
}

# get_kubernetes: builds the cluster's programs into $programs/kubernetes, or says why not; KUBERNETES_PROGRAMS names a folder that has them already.
get_kubernetes() {
    local folder name work status=0 until=$((SECONDS + build_seconds))
    folder=$(kubernetes_folder)
    mkdir -p "$programs" "$folder"
    ln -sfn "$folder" "$programs/kubernetes"
    ! has_kubernetes || return 0
    command -v go > /dev/null || { say "left out: there is no go (Debian's golang-go is too old for Kubernetes)"; return 0; }
    work=$(mktemp -d)
    mkdir "$work/etcd" "$work/kubernetes"
    printf 'module interop\ngo 1.25.0\nrequire go.etcd.io/etcd/server/v3 v%s\n' "$etcd_version" > "$work/etcd/go.mod"
    status=0
    kubernetes_module "$work/kubernetes" > "$work/log" 2>&1 || status=1
    for name in $kubernetes_parts; do
        [ "$status" -eq 0 ] || break
        cd "$work/$([ "$name" = etcd ] && echo etcd || echo kubernetes)" || return
        build_part "$folder" "$name" $((until > SECONDS ? until - SECONDS : 1)) >> "$work/log" 2>&1 || status=$?
        cd "$root" || return
    done
    [ "$status" -eq 0 ] || say "left out: Kubernetes $kubernetes_version: $(why_not "$status" "$work/log")"
    rm -rf "$work"
}
