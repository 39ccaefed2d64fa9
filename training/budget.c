#include "training/budget.h"

struct run_cost run_cost_of(const struct run_envelope *envelope)
{
    const int64_t nodes = run_integer(envelope, "spec.nodes");
    const int64_t time_s = run_integer(envelope, "spec.limits.time_s") + run_integer(envelope, "spec.limits.grace_s");
    const bool has_devices = run_member(envelope, "spec.devices") != NULL;

    return (struct run_cost){.cpu_s = nodes * time_s * run_integer(envelope, "spec.limits.cpus"),
                             .gpu_s = has_devices ? nodes * time_s * run_integer(envelope, "spec.devices.count") : 0};
}
