#include "runner/devices/libraries.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

/* What a program that computes needs (NVIDIA's container toolkit: `compute` and `utility`). */
static const char *const wanted[] = {"libcuda.so",
                                     "libcudadebugger.so",
                                     "libnvidia-ml.so",
                                     "libnvidia-cfg.so",
                                     "libnvidia-gpucomp.so",
                                     "libnvidia-ptxjitcompiler.so",
                                     "libnvidia-nvvm.so",
                                     "libnvidia-nvvm70.so",
                                     "libnvidia-opencl.so",
                                     "libnvidia-allocator.so",
                                     "libnvidia-fatbinaryloader.so",
                                     "libnvidia-tileiras.so",
                                     "libnvidia-sandboxutils.so"};

static bool is_wanted(const char *name)
{
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const size_t length = strlen(wanted[i]);
        if (strncmp(name, wanted[i], length) == 0 && (name[length] == '\0' || name[length] == '.')) return true;
    }
    return false;
}

static void close_listing(DIR **listing)
{
    if (*listing != NULL) (void)closedir(*listing);
}

static struct result add(struct driver_libraries *libraries, const char *folder, const char *name, struct error *err)
{
    struct driver_library *library = &libraries->libraries[libraries->count];
    char path[LIBRARY_PATH_SIZE], real[PATH_MAX];
    struct stat about;

    if (libraries->count == LIBRARIES_MAX)
        return failure(err, ERROR_LIMIT, "the driver has more than %d libraries", LIBRARIES_MAX);
    (void)snprintf(path, sizeof path, "%.380s/%.120s", folder, name);
    if (realpath(path, real) == NULL || strlen(real) >= sizeof library->path || stat(real, &about) != 0 ||
        !S_ISREG(about.st_mode))
        return SUCCESS; /* a link that leads nowhere */
    memcpy(library->path, real, strlen(real) + 1);
    (void)snprintf(library->name, sizeof library->name, "%.120s", name);
    libraries->count++;
    return SUCCESS;
}

static bool has_cuda(const struct driver_libraries *libraries)
{
    for (size_t i = 0; i < libraries->count; i++)
        if (strcmp(libraries->libraries[i].name, "libcuda.so.1") == 0) return true;
    return false;
}

struct result driver_libraries_find(const char *nvml, struct driver_libraries *libraries_out, struct error *err)
{
    __attribute__((cleanup(close_listing))) DIR *listing = NULL;
    struct driver_libraries libraries = {.count = 0};
    char folder[LIBRARY_PATH_SIZE];
    const char *name = NULL;

    (void)snprintf(folder, sizeof folder, "%s", nvml);
    char *slash = strrchr(folder, '/');
    if (slash != NULL) *slash = '\0';
    if (slash == NULL || (listing = opendir(folder)) == NULL)
        return failure(err, ERROR_NOT_FOUND, "the folder of the driver's libraries can't be listed: %s",
                       slash == NULL ? nvml : strerror(errno));
    for (;;) {
        TRY(file_list_next(listing, &name, err));
        if (name == NULL) break;
        if (is_wanted(name)) TRY(add(&libraries, folder, name, err));
    }
    if (!has_cuda(&libraries)) return failure(err, ERROR_NOT_FOUND, "the driver has no libcuda.so.1 in %.200s", folder);
    *libraries_out = libraries;
    return SUCCESS;
}
