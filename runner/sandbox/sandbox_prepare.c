/* Everything that a run needs before its first process: isolation, user, folder, copies, files in memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/sandbox.h"
#include "runner/sandbox/nodes.h"
#include "runner/sandbox/sandbox_priv.h"

#define FILTER_DESCRIPTOR 4 /* in bwrap; sandbox_start.c places it */
#define INSIDE_MAX        (16 << 20)
#define HOSTS_MAX         16384 /* a line for each node */

static struct result find_isolation(struct sandbox *sandbox, struct error *err)
{
    cgroup_find(sandbox->options->cgroup, &sandbox->place);
    sandbox->report.isolation = sandbox->place.isolation;
    if (sandbox->place.isolation >= sandbox->options->isolation) return SUCCESS;
    return failure(err, ERROR_DENIED, "the isolation %s is demanded, and this machine gives %s%s%s",
                   isolation_name(sandbox->options->isolation), isolation_name(sandbox->place.isolation),
                   sandbox->place.lacks[0] == '\0' ? "" : ": ", sandbox->place.lacks);
}

static struct result find_user(struct sandbox *sandbox, struct error *err)
{
    struct error why;

    sandbox->user = (struct user){.uid = geteuid(), .gid = getegid()};
    if (geteuid() != 0) return SUCCESS;
    sandbox->changes_user = true;
    if (!user_find(sandbox->options->user, &sandbox->user, &why).ok)
        return failure(err, why.kind, "%.120s: make one (useradd --system %.32s), or name another with --user", why.message,
                       sandbox->options->user);
    if (sandbox->user.uid == 0) return failure(err, ERROR_DENIED, "a payload never runs as root: name another user with --user");
    return SUCCESS;
}

static struct result make_in(const struct sandbox *sandbox, struct error *err)
{
    if (mkdirat(sandbox->work.folder, "in", 0755) == 0 && fchmodat(sandbox->work.folder, "in", 0755, 0) == 0) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "no folder for inputs: %s", strerror(errno));
}

static struct result copy_inputs(struct sandbox *sandbox, struct error *err)
{
    const struct sandbox_options *options = sandbox->options;
    OWNED_FD in = -1;

    TRY(make_in(sandbox, err));
    TRY(file_open_at(sandbox->work.folder, "in", O_RDONLY | O_DIRECTORY, 0, &in, err));
    for (size_t i = 0; i < options->input_count; i++) {
        char what[RUN_NAME_MAX + 8];
        (void)snprintf(what, sizeof what, "input %s", options->inputs[i].name);
        const struct copy_source source = {.what = what, .path = options->inputs[i].path};
        TRY(copy_in(&source, in, options->inputs[i].name, &sandbox->report.inputs[i], err));
    }
    return SUCCESS;
}

static struct result write_text(const struct sandbox *sandbox, const char *name, struct bytes text, struct error *err)
{
    OWNED_FD file = -1;

    TRY(file_open_at(sandbox->work.folder, name, O_WRONLY | O_CREAT | O_EXCL, 0644, &file, err));
    TRY(file_write_all(file, text.data, text.length, err));
    return fchmod(file, 0644) == 0 ? SUCCESS : failure(err, ERROR_UNAVAILABLE, "a file for a sandbox: %s", strerror(errno));
}

static struct result write_passwd(const struct sandbox *sandbox, struct error *err)
{
    return write_text(sandbox, "passwd", bytes_of_text("run:x:1000:1000::/tmp:/bin/sh\n"), err);
}

/* Libraries look up the sandbox's own name, and warn if it has no address. */
static bool has_hosts(const struct sandbox_options *options)
{
    return options->device != NULL || options->joins_tasks;
}

/* The sandbox's own name has the address that other nodes see: libraries listen there. Without other nodes it is the loopback's. */
static struct result write_hosts(const struct sandbox *sandbox, struct error *err)
{
    const struct sandbox_options *options = sandbox->options;
    struct buffer OWNED_BUFFER text = BUFFER(HOSTS_MAX);
    char address[NODES_ADDRESS_SIZE];

    if (!has_hosts(options)) return SUCCESS;
    TRY(buffer_add_text(&text, "127.0.0.1 localhost\n", err));
    if (options->device == NULL) TRY(buffer_add_text(&text, "127.0.0.1 " BUBBLEWRAP_NAME "\n", err));
    for (int64_t node = 0; node < options->nodes && options->device != NULL; node++) {
        nodes_address_text(node, address);
        TRY(buffer_format(&text, err, "%s node%lld%s\n", address, (long long)node,
                          node == options->node ? " " BUBBLEWRAP_NAME : ""));
    }
    return write_text(sandbox, "hosts", buffer_bytes(&text), err);
}

static struct result copy_inside(const struct sandbox *sandbox, struct error *err)
{
    OWNED_FD program = -1;
    uint64_t size = 0;

    TRY(file_open(sandbox->options->inside, O_RDONLY, 0, &program, err));
    TRY(file_size(program, &size, err));
    if (size > INSIDE_MAX) return failure(err, ERROR_LIMIT, "%.160s is too large", sandbox->options->inside);
    return copy_file(program, (int64_t)size, sandbox->work.folder, "inside", 0555, err);
}

static struct result copy_or_fill(struct sandbox *sandbox, struct error *err)
{
    const struct copy_source code = {.what = "code", .path = sandbox->options->code};

    if (sandbox->options->fill != NULL) {
        TRY(make_in(sandbox, err));
        return sandbox->options->fill(sandbox->options->context, sandbox->work.folder, err);
    }
    if (code.path != NULL) TRY(copy_in(&code, sandbox->work.folder, "code", &sandbox->report.code, err));
    return copy_inputs(sandbox, err);
}

static struct result fill_folder(struct sandbox *sandbox, struct error *err)
{
    const struct sandbox_folder folder = {.fd = sandbox->work.folder, .path = sandbox->work.path, .user = &sandbox->user};

    TRY(copy_inside(sandbox, err));
    TRY(write_passwd(sandbox, err));
    TRY(write_hosts(sandbox, err));
    TRY(copy_or_fill(sandbox, err));
    return sandbox->options->image == NULL ? SUCCESS : sandbox->options->image(sandbox->options->context, &folder, err);
}

static struct result memory_file(const char *name, int *fd_out, struct error *err)
{
    const int fd = fault_is_due(FAULT_FILE) ? -1 : memfd_create(name, MFD_CLOEXEC);

    if (fd < 0) return failure(err, ERROR_UNAVAILABLE, "no file in memory: %s", strerror(errno));
    *fd_out = fd;
    return SUCCESS;
}

static struct result write_arguments(struct sandbox *sandbox, struct error *err)
{
    const struct sandbox_options *options = sandbox->options;
    struct buffer OWNED_BUFFER text = BUFFER(BUBBLEWRAP_MAX);
    const char *inputs[RUN_INPUTS_MAX];
    OWNED_FD root = -1;

    for (size_t i = 0; i < options->input_count; i++) inputs[i] = options->inputs[i].name;
    if (options->image != NULL)
        TRY(file_open_at(sandbox->work.folder, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &root, err));
    if (root >= 0 && has_hosts(options)) TRY(copy_settle(root, "hosts", err));
    const struct bubblewrap_view view = {.work = sandbox->work.path,
                                         .limits = options->limits,
                                         .variables = options->variables,
                                         .input_count = options->input_count,
                                         .inputs = inputs,
                                         .has_code = options->code != NULL,
                                         .root = root,
                                         .has_hosts = has_hosts(options),
                                         .bind_count = options->bind_count,
                                         .binds = options->binds,
                                         .filter = FILTER_DESCRIPTOR};
    TRY(bubblewrap_arguments(&view, &text, err));
    TRY(memory_file("arguments", &sandbox->arguments, err));
    TRY(file_write_all(sandbox->arguments, text.data, text.length, err));
    return lseek(sandbox->arguments, 0, SEEK_SET) == 0 ? SUCCESS
                                                       : failure(err, ERROR_UNAVAILABLE, "a file in memory: %s", strerror(errno));
}

static struct result write_filter(struct sandbox *sandbox, struct error *err)
{
    TRY(memory_file("filter", &sandbox->filter, err));
    const struct sandbox_options *options = sandbox->options;
    const bool joins = has_hosts(options);
    const enum sandbox_code code = joins ? SANDBOX_TASKS : options->unpacks ? SANDBOX_UNPACKS : SANDBOX_CODE;
    TRY(sandbox_write_filter(sandbox->filter, code, err));
    return lseek(sandbox->filter, 0, SEEK_SET) == 0 ? SUCCESS
                                                    : failure(err, ERROR_UNAVAILABLE, "a file in memory: %s", strerror(errno));
}

static struct result open_streams(struct sandbox *sandbox, struct error *err)
{
    const struct child_output_options printed = {.maximum = UINT64_MAX, .take = sandbox_take_log, .context = sandbox};

    TRY(hasher_new(DIGEST_SHA256, &sandbox->log, err));
    TRY(child_output_new(&printed, &sandbox->printed, err));
    return proof_channel(sandbox->channel, err);
}

struct result sandbox_prepare_run(struct sandbox *sandbox, struct error *err)
{
    TRY(find_isolation(sandbox, err));
    TRY(find_user(sandbox, err));
    TRY(work_open(sandbox->options->work, sandbox->user.gid, &sandbox->place, &sandbox->work, err));
    TRY(fill_folder(sandbox, err));
    if (sandbox->place.isolation != ISOLATION_RLIMITS)
        TRY(cgroup_new(&sandbox->place, sandbox->work.name, sandbox->options->limits, &sandbox->cgroup, err));
    TRY(write_arguments(sandbox, err));
    TRY(write_filter(sandbox, err));
    return open_streams(sandbox, err);
}
