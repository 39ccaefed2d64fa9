/* The client without a registry, while memory or the disk fails. */
#include "tests/support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "client/commands/command.h"
#include "client/hash.h"
#include "client/hosts.h"
#include "client/layout.h"
#include "client/session.h"

static char folder[] = "/tmp/sijil-client-failures-XXXXXX";

static struct invocation *invocation;

static struct result keep_a_login(void *context, struct error *err)
{
    const struct host_login login = {.username = "robot$ci",
                                     .password = "secret",
                                     .issuer = {.url = "https://id.example", .refresh = "again", .expires_ms = 7}};
    struct host_login found;

    (void)context;
    TRY(host_login_save("registry.example", &login, err));
    TRY_UNTOUCHED_BYTES(found, host_login_find("registry.example", &found, err));
    assert_string_equal(found.password, "secret");
    assert_string_equal(found.issuer.refresh, "again");
    assert_int_equal(found.issuer.expires_ms, 7);
    return host_login_forget("registry.example", err);
}

static struct result open_sessions(void *context, struct error *err)
{
    const struct host_login login = {.username = "robot$ci", .password = "secret"};
    OWNED(session) *session = NULL;
    OWNED(session) *branch = NULL;

    (void)context;
    TRY_UNTOUCHED_BYTES(session, session_open(&invocation->report, "registry.example", &login, &session, err));
    TRY_UNTOUCHED_BYTES(branch, session_clone(session, &invocation->report, &branch, err));
    return SUCCESS;
}

static struct result write_a_part(void *context, struct error *err)
{
    OWNED_FD target = -1;
    OWNED_FD fd = -1;

    (void)context;
    TRY(file_open(folder, O_RDONLY | O_DIRECTORY, 0, &target, err));
    const struct result opened = title_open(target, "deep/part", O_RDWR | O_CREAT, &fd, err);
    if (!opened.ok) assert_int_equal(fd, -1);
    TRY(opened);
    TRY(file_write_at(fd, "1234", 4, 0, err));
    return title_rename(target, "deep/part", "deep/file", err);
}

static struct result hash_a_file(void *context, struct error *err)
{
    OWNED(hasher) *hasher = NULL;
    OWNED_FD fd = -1;
    uint64_t hashed;

    (void)context;
    TRY(file_open("/proc/self/exe", O_RDONLY, 0, &fd, err));
    TRY_UNTOUCHED_BYTES(hasher, hasher_new(DIGEST_SHA256, &hasher, err));
    TRY_UNTOUCHED_BYTES(hashed, hash_file(fd, 100000, hasher, NULL, &hashed, err));
    assert_int_equal(hashed, 100000);
    return SUCCESS;
}

static struct result write_manifests(void *context, struct error *err)
{
    static const struct layer_file file = {.path = "a",
                                           .title = "model.onnx",
                                           .media_type = "application/vnd.cncf.model.weight.v1.raw",
                                           .digest = "sha256:0",
                                           .size = 7};
    struct buffer OWNED_BUFFER config = BUFFER(4096);
    struct buffer OWNED_BUFFER manifest = BUFFER(4096);

    (void)context;
    TRY(layout_config("model", &file, 1, &config, err));
    return layout_manifest(&file, 1, buffer_bytes(&config), NULL, &manifest, err);
}

static const struct fallible_row work_rows[] = {
    {"a login is kept", keep_a_login, 80}, {"sessions are opened", open_sessions, 4},     {"a part is written", write_a_part, 8},
    {"a file is hashed", hash_a_file, 3},  {"manifests are written", write_manifests, 2},
};

int main(void)
{
    char command[100];

    if (mkdtemp(folder) == NULL || setenv("XDG_CONFIG_HOME", folder, 1) != 0) return 1;
    (void)unsetenv("SIJIL_PASSWORD");
    invocation = memory_zeroed(1, sizeof *invocation);
    if (invocation == NULL) return 1;
    const int failed = RUN_TABLE(work_rows, failures_are_said);
    free(invocation);
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? failed : 1; /* NOLINT(cert-env33-c): our own mkdtemp() name */
}
