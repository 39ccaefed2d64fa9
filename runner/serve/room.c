#include "runner/serve/room.h"

#include <errno.h>
#include <fcntl.h>

#include "base/file.h"

#define LEAST_BYTES (INT64_C(1) << 20) /* for the bundle of a lease, and to begin with the code */

static bool is_full(int problem)
{
    return problem == ENOSPC || problem == EDQUOT || problem == EFBIG; /* the last one: a limit of this process */
}

/* A file without a name: a kill leaves nothing. */
static bool has_room(int folder)
{
    OWNED_FD file = openat(folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

    if (file < 0) return !is_full(errno);
    return fallocate(file, 0, 0, LEAST_BYTES) == 0 || !is_full(errno);
}

struct result room_check(const char *work, int kept, struct error *err)
{
    static const char way_out[] = "make room: it takes runs again once there is 1 MiB";
    OWNED_FD folder = open(work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (folder >= 0 && !has_room(folder)) return failure(err, ERROR_FULL, "the disk of --work=%.120s is full: %s", work, way_out);
    if (!has_room(kept)) return failure(err, ERROR_FULL, "the disk of --state is full: %s", way_out);
    return SUCCESS;
}
