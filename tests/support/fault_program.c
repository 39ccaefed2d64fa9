/*
 * For a whole program whose failures another process plans: SIJIL_FAULT_PLAN names a file with a struct fault_plan, which
 * tests/faults/plan.py writes while the program runs. With SIJIL_FAULT_TRACE set, each failure is printed with its call
 * stack.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#else
static void __sanitizer_print_stack_trace(void)
{
}
#endif

static void show(enum fault_kind kind)
{
    static const char *const names[] = {
#define X(constant, name) [constant] = name,
        FAULT_KIND_TABLE(X)
#undef X
    };

    (void)fprintf(stderr, "failing on demand: %s\n", names[kind]);
    __sanitizer_print_stack_trace();
}

__attribute__((constructor)) static void follow_plan(void)
{
    const char *path = getenv("SIJIL_FAULT_PLAN");

    if (path == NULL) return;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    void *place = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(struct fault_plan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (place == MAP_FAILED) {
        perror(path);
        _exit(125);
    }
    (void)close(fd);
    fault_follow(place, getenv("SIJIL_FAULT_TRACE") == NULL ? NULL : show);
}
