/*
 * runner/devices/libraries.h -- the libraries of the devices' driver, for a run that does not see this machine's /usr.
 *
 * They fit the driver in the kernel, so no image can bring them. They lie beside NVML's library.
 */
#pragma once

#include <stddef.h>

#include "base/result.h"

#define LIBRARIES_MAX        48
#define LIBRARY_PATH_SIZE    512
#define LIBRARY_NAME_SIZE    128
#define LIBRARIES_IN_SANDBOX "/run/sijil-driver"

struct driver_library {
    char path[LIBRARY_PATH_SIZE]; /* of the file, without links */
    char name[LIBRARY_NAME_SIZE]; /* as programs ask for it, such as libcuda.so.1 */
};
struct driver_libraries {
    size_t count;
    struct driver_library libraries[LIBRARIES_MAX];
};

/** Looks beside `nvml`, the path of NVML's library. ERROR_NOT_FOUND: there is no libcuda.so.1; ERROR_LIMIT. */
RESULT driver_libraries_find(const char *nvml, struct driver_libraries *libraries_out, struct error *err);
