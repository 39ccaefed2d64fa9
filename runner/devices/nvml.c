#include "runner/devices/nvml.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

/* ISO C has no conversion between pointers to data and to functions; POSIX says that the representation is the same. */
static bool find(void *library, const char *symbol, void *function_out, size_t size)
{
    void *found = dlsym(library, symbol);

    memcpy(function_out, &found, size);
    return found != NULL;
}

static struct result find_all(struct nvml *nvml, struct error *err)
{
#define X(member, symbol, parameters)                                     \
    if (!find(nvml->library, symbol, &nvml->member, sizeof nvml->member)) \
        return failure(err, ERROR_UNAVAILABLE, "the driver's library has no " symbol);
    NVML_FUNCTIONS(X)
#undef X
    return SUCCESS;
}

struct result nvml_open(const char *library, struct nvml *nvml_out, struct error *err)
{
    struct nvml nvml = {.library = dlopen(library, RTLD_NOW | RTLD_LOCAL)};

    if (nvml.library == NULL) return failure(err, ERROR_NOT_FOUND, "no driver for devices: %.200s", dlerror());
    struct result done = find_all(&nvml, err);
    const int problem = done.ok ? nvml.init() : 0;
    if (problem != 0) done = failure(err, ERROR_UNAVAILABLE, "the driver for devices does not start (NVML error %d)", problem);
    if (!done.ok) (void)dlclose(nvml.library);
    else *nvml_out = nvml;
    return done;
}

void nvml_path(const struct nvml *nvml, char *path, size_t size)
{
    const struct link_map *map = NULL;

    path[0] = '\0';
    if (dlinfo(nvml->library, RTLD_DI_LINKMAP, &map) == 0 && map != NULL && map->l_name != NULL)
        (void)snprintf(path, size, "%s", map->l_name);
}

void nvml_close(struct nvml *nvml)
{
    if (nvml->library == NULL) return;
    (void)nvml->shutdown();
    (void)dlclose(nvml->library);
    nvml->library = NULL;
}
