/* Reads the demands of an order on a runner. */
#include <string.h>

#include "training/format/form.h"
#include "training/lease.h"

struct run_need run_need_of(const struct run_envelope *order)
{
    const json_t *jurisdictions = run_member(order, "jurisdictions"), *devices = run_member(order, "spec.devices");
    struct run_need need = {.attempts = run_integer(order, "attempts"),
                            .nodes = run_integer(order, "spec.nodes"),
                            .time_s = run_integer(order, "spec.limits.time_s") + run_integer(order, "spec.limits.grace_s"),
                            .cpus = run_integer(order, "spec.limits.cpus"),
                            .memory_bytes = run_integer(order, "spec.limits.memory_bytes"),
                            .isolation = form_isolation_rank(run_text(order, "spec.isolation")),
                            .assurance = run_integer(order, "spec.assurance"),
                            .device_type = "",
                            .device_mig = "",
                            .expires_ms = run_time(order, "expires")};

    for (size_t i = 0; i < json_array_size(jurisdictions) && i < RUN_JURISDICTIONS_MAX; i++)
        need.jurisdictions[need.jurisdiction_count++] = bytes_of_text(json_string_value(json_array_get(jurisdictions, i)));
    if (devices == NULL) return need;
    need.devices = run_integer(order, "spec.devices.count");
    need.device_memory = run_integer(order, "spec.devices.memory_bytes");
    need.device_type = run_text(order, "spec.devices.type");
    if (run_member(order, "spec.devices.mig") != NULL) need.device_mig = run_text(order, "spec.devices.mig");
    return need;
}
