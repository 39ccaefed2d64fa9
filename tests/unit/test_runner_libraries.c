/* The libraries of a driver, found beside that of NVML. */
#include "tests/support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "runner/devices/libraries.h"

static char folder[] = "/tmp/sijil-libraries-XXXXXX";
static char nvml[64];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) return 1;
    (void)snprintf(nvml, sizeof nvml, "%s/libnvidia-ml.so.1", folder);
    return 0;
}

static int remove_folder(void **state)
{
    char command[64];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void make(const char *name, const char *target)
{
    OWNED_FD at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (target != NULL) {
        assert_int_equal(symlinkat(target, at, name), 0);
        return;
    }
    const int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    assert_true(fd >= 0 && close(fd) == 0);
}

static bool has(const struct driver_libraries *found, const char *name, const char *file)
{
    for (size_t i = 0; i < found->count; i++)
        if (strcmp(found->libraries[i].name, name) == 0) return strcmp(strrchr(found->libraries[i].path, '/') + 1, file) == 0;
    return false;
}

static void what_programs_ask_for_is_found(void **state)
{
    struct driver_libraries found = {.count = 0};
    struct error err = {0};

    (void)state;
    assert_false(driver_libraries_find(nvml, &found, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    make("libnvidia-ml.so.1", "libnvidia-ml.so.580.1");
    make("libnvidia-ml.so.580.1", NULL);
    assert_false(driver_libraries_find(nvml, &found, &err).ok);
    assert_non_null(strstr(err.message, "libcuda.so.1"));
    make("libcuda.so.580.1", NULL);
    make("libcuda.so.1", "libcuda.so.580.1");
    make("libcuda.so", "libcuda.so.1");
    make("libcudart.so", NULL);
    make("libnvidia-ptxjitcompiler.so.1", "nowhere");
    make("libnvidia-glcore.so.580.1", NULL);
    must(driver_libraries_find(nvml, &found, &err), &err);
    assert_int_equal(found.count, 5);
    assert_true(has(&found, "libcuda.so.1", "libcuda.so.580.1") && has(&found, "libcuda.so", "libcuda.so.580.1"));
    assert_true(has(&found, "libnvidia-ml.so.1", "libnvidia-ml.so.580.1"));
}

static void odd_places_are_refused(void **state)
{
    struct driver_libraries found;
    struct error err = {0};
    char name[64];

    (void)state;
    assert_false(driver_libraries_find("libnvidia-ml.so.1", &found, &err).ok);
    assert_false(driver_libraries_find("/no/where/libnvidia-ml.so.1", &found, &err).ok);
    for (int i = 0; i < LIBRARIES_MAX; i++) {
        (void)snprintf(name, sizeof name, "libnvidia-nvvm.so.%d", i);
        make(name, NULL);
    }
    assert_false(driver_libraries_find(nvml, &found, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_programs_ask_for_is_found),
                                       cmocka_unit_test(odd_places_are_refused)};

    return cmocka_run_group_tests_name("libraries", tests, make_folder, remove_folder);
}
