/* glibc 2.36 has no sched_setattr(2), and its <sched.h> does not go together with the kernel's. */
#include "base/priority.h"

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_NS        300000 /* measured: with 100,000, frequent switches of threads make small reads a sixth dearer */
#define BACKGROUND_NICE 10
#define HIGH_NICE       (-5)

static bool read_priority(struct sched_attr *attributes_out)
{
    return syscall(SYS_sched_getattr, 0, attributes_out, sizeof *attributes_out, 0) == 0;
}

static void set_priority(struct sched_attr *attributes)
{
    attributes->sched_flags = 0;
    (void)syscall(SYS_sched_setattr, 0, attributes, 0); /* only a hint */
}

void priority_interactive(void)
{
    struct sched_attr attributes = {.size = sizeof attributes};

    if (!read_priority(&attributes)) return;
    attributes.sched_runtime = SLICE_NS;
    set_priority(&attributes);
}

void priority_high(void)
{
    struct sched_attr attributes = {.size = sizeof attributes};

    if (!read_priority(&attributes)) return;
    if (attributes.sched_nice > HIGH_NICE) attributes.sched_nice = HIGH_NICE;
    set_priority(&attributes);
}

void priority_background(void)
{
    struct sched_attr attributes = {.size = sizeof attributes};

    if (!read_priority(&attributes)) return;
    attributes.sched_policy = SCHED_BATCH;
    if (attributes.sched_nice < BACKGROUND_NICE) attributes.sched_nice = BACKGROUND_NICE;
    attributes.sched_runtime = 0; /* the default slice */
    set_priority(&attributes);
}
