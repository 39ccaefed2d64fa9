#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "runner/pod/pod.h"

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

struct result pod_place(const char *folder, struct error *err)
{
    struct buffer OWNED_BUFFER program = BUFFER(PROGRAM_MAX);
    char path[POD_PATH_SIZE];

    if (snprintf(path, sizeof path, "%s/" POD_PROGRAM, folder) >= (int)sizeof path)
        return failure(err, ERROR_INVALID, "the name of the folder is too long");
    TRY(shut_away(folder, err));
    TRY(file_read("/proc/self/exe", &program, err));
    return file_replace(path, buffer_bytes(&program), 0555, err);
}
