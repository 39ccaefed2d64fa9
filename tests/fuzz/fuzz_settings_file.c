/* sijild.conf as an operator or a faulty template writes it: the result is settings that fit together, or a reason. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gateway/settings/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct settings settings;
    char path[32]; /* "/proc/self/fd/" and a number */
    struct error err = {0};

    const int fd = memfd_create("settings", MFD_CLOEXEC);
    assert(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!settings_read(path, &settings, &err).ok) {
        assert(err.kind != ERROR_NONE && err.message[0] != '\0');
    } else {
        assert(settings.region_count > 0 && settings.region_count <= SETTINGS_REGIONS_MAX);
        assert(strncmp(settings.public_url, "https://", 8) == 0 && strpbrk(settings.public_url + 8, "/ \"\r\n") == NULL);
        assert(strpbrk(settings.service, " \"\r\n") == NULL);
    }
    assert(close(fd) == 0);
    return 0;
}
