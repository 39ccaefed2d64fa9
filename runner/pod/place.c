#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "runner/pod/pod.h"
#include "runner/pod/probe.h"

#define PROGRAM_MAX (16 << 20)

/*
 * Kubernetes gives each container a file whose content becomes a part of the pod's status, for everybody who may read it. It mounts that file
 * over the one that is made here: that one is in a folder that the payload's user can't enter.
 */
static struct result shut_away(const char *folder, struct error *err)
{
    char path[POD_PATH_SIZE];
    OWNED_FD shut = -1, file = -1;

    (void)snprintf(path, sizeof path, "%s/" POD_SHUT, folder);
    if (mkdir(path, 0700) != 0 && errno != EEXIST) return failure(err, ERROR_UNAVAILABLE, "%.100s: %s", path, strerror(errno));
    TRY(file_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &shut, err));
    if (fchmod(shut, 0700) != 0) return failure(err, ERROR_UNAVAILABLE, "%.100s: %s", path, strerror(errno));
    return file_open_at(shut, POD_WORD, O_WRONLY | O_CREAT | O_NOFOLLOW, 0600, &file, err);
}

static struct result copy_program(const char *from, const char *folder, const char *name, struct error *err)
{
    struct buffer OWNED_BUFFER program = BUFFER(PROGRAM_MAX);
    char path[POD_PATH_SIZE];

    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return failure(err, ERROR_INVALID, "the name of the folder is too long");
    TRY(file_read(from, &program, err));
    return file_replace(path, buffer_bytes(&program), 0555, err);
}

/* It lies beside this very program. An image without it serves runs without devices. */
static struct result copy_probe(const char *folder, struct error *err)
{
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof PROBE_PROGRAM);

    if (length <= 0) return failure(err, ERROR_UNAVAILABLE, "the program does not find itself: %s", strerror(errno));
    path[length] = '\0';
    memcpy(strrchr(path, '/') + 1, PROBE_PROGRAM, sizeof PROBE_PROGRAM);
    return access(path, R_OK) == 0 ? copy_program(path, folder, PROBE_PROGRAM, err) : SUCCESS;
}

struct result pod_place(const char *folder, struct error *err)
{
    TRY(shut_away(folder, err));
    TRY(copy_program("/proc/self/exe", folder, POD_PROGRAM, err));
    return copy_probe(folder, err);
}
