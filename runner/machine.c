#include "runner/machine.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "runner/image/image.h"
#include "runner/sandbox/variables.h"

static struct result drop_device(void *context, int device, struct error *err)
{
    (void)context, (void)err;
    (void)close(device);
    return SUCCESS;
}

/* Runs /usr/bin/true. */
static struct result run_true(const struct machine_options *options, bool joins_nodes, struct sandbox_report *report,
                              struct error *err)
{
    char *const arguments[] = {(char[]){"/usr/bin/true"}, NULL};
    struct run_limits limits = run_limits_default;
    OWNED_JSON variables = NULL;

    limits.time_s = 60;
    limits.memory_bytes = INT64_C(256) << 20;
    TRY(variables_make(NULL, NULL, 0, &variables, err));
    const struct sandbox_options run = {.limits = &limits,
                                        .cgroup = options->cgroup,
                                        .arguments = arguments,
                                        .variables = variables,
                                        .work = options->work,
                                        .user = options->user,
                                        .inside = options->inside,
                                        .device = joins_nodes ? drop_device : NULL,
                                        .nodes = joins_nodes ? 2 : 0};
    return sandbox_run(&run, report, err);
}

static void try_nodes(const struct machine_options *options, struct machine *machine)
{
    struct sandbox_report report;
    struct error err = {0};

    if (!options->joins_nodes || !machine->runs) return;
    machine->joins_nodes = run_true(options, true, &report, &err).ok && report.exit == 0;
    if (!machine->joins_nodes) (void)snprintf(machine->no_nodes, sizeof machine->no_nodes, "%s", err.message);
}

static void try_sandbox(const struct machine_options *options, struct machine *machine)
{
    struct sandbox_report report;
    struct error err = {0};

    const int64_t began_ms = clock_monotonic_ms();
    const bool ran = run_true(options, false, &report, &err).ok;
    machine->runs = ran && report.exit == 0;
    machine->make_ms = clock_monotonic_ms() - began_ms;
    if (!ran) (void)snprintf(machine->why, sizeof machine->why, "%s", err.message);
    else if (!machine->runs) (void)snprintf(machine->why, sizeof machine->why, "/usr/bin/true ended with %d", report.exit);
    if (!machine->runs) return;
    machine->start_us = report.start_us;
    machine->addresses = report.address_count;
}

struct result machine_look(const struct machine_options *options, struct machine *machine_out, struct error *err)
{
    struct machine machine = {0};
    struct cgroup_place place;
    struct error why;

    (void)err;
    if (!devices_open(options->nvml, &machine.devices, &why).ok)
        (void)snprintf(machine.no_devices, sizeof machine.no_devices, "%s", why.message);
    cgroup_find(options->cgroup, &place);
    machine.isolation = place.isolation;
    (void)snprintf(machine.lacks, sizeof machine.lacks, "%s", place.lacks);
    machine.unpacks_images = image_tool_check(&why).ok;
    machine.memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    machine.cpus = sysconf(_SC_NPROCESSORS_ONLN);
    try_sandbox(options, &machine);
    try_nodes(options, &machine);
    machine.meets_floor = machine.runs && machine.isolation >= options->least;
    *machine_out = machine;
    return SUCCESS;
}

void machine_done(struct machine *machine)
{
    devices_free(machine->devices);
    machine->devices = NULL;
}

static size_t count_devices(const struct machine *machine)
{
    return machine->devices == NULL ? 0 : devices_count(machine->devices);
}

static struct result add_devices(const struct machine *machine, struct buffer *text, struct error *err)
{
    if (machine->devices == NULL) return buffer_format(text, err, "devices    none: %s\n", machine->no_devices);
    for (size_t i = 0; i < count_devices(machine); i++) {
        const struct device *device = devices_at(machine->devices, i);
        TRY(buffer_format(text, err, "device     %s  %s, %lld MiB, driver %s%s\n", device->uuid, device->type,
                          (long long)device->memory_bytes >> 20, device->driver,
                          device->is_sliced ? "; in MIG mode, so only its parts are given" : ""));
    }
    return SUCCESS;
}

/* All devices that a run may get, in the same form as in the result of a run. They are granted to no run. */
static json_t *devices_as_json(const struct machine *machine)
{
    struct device_grant all = {.count = 0};

    for (size_t i = 0; i < count_devices(machine); i++)
        if (!devices_at(machine->devices, i)->is_sliced) all.which[all.count++] = i;
    return machine->devices == NULL ? json_array() : devices_json(machine->devices, &all);
}

static struct result add_isolation(const struct machine *machine, struct buffer *text, struct error *err)
{
    TRY(buffer_format(text, err, "isolation  %s\n", isolation_name(machine->isolation)));
    if (machine->lacks[0] != '\0') TRY(buffer_format(text, err, "           %s\n", machine->lacks));
    if (machine->isolation == ISOLATION_RLIMITS)
        return buffer_add_text(text, "           memory is limited for each process, and not for all together\n", err);
    return SUCCESS;
}

struct result machine_text(const struct machine *machine, struct buffer *text, struct error *err)
{
    if (machine->runs)
        TRY(buffer_format(text, err,
                          "sandbox    works: made and removed in %lld ms, program begun in %lld us; %zu addresses out of reach\n",
                          (long long)machine->make_ms, (long long)machine->start_us, machine->addresses));
    else TRY(buffer_format(text, err, "sandbox    does not work: %s\n", machine->why));
    TRY(add_isolation(machine, text, err));
    TRY(buffer_format(text, err, "machine    %lld processors, %lld MiB of memory\n", (long long)machine->cpus,
                      (long long)machine->memory_bytes >> 20));
    TRY(add_devices(machine, text, err));
    TRY(buffer_format(text, err, "images     %s\n",
                      machine->unpacks_images ? "can be unpacked" : "none: install Debian's package umoci"));
    TRY(buffer_format(text, err, "nodes      %s%s\n",
                      machine->joins_nodes ? "can be joined: see serve --tunnel-listen" : "none: ",
                      machine->joins_nodes || !machine->runs ? "" : machine->no_nodes));
    if (machine->meets_floor || !machine->runs)
        return buffer_format(text, err, "floor      %s\n", machine->meets_floor ? "met" : "NOT met");
    return buffer_add_text(text, "floor      NOT met: add what the line \"isolation\" lacks, or accept less with --least\n", err);
}

struct result machine_json(const struct machine *machine, struct buffer *text, struct error *err)
{
    OWNED_JSON json =
        json_pack("{s:b s:b s:b s:b s:s s:s s:s s:s s:I s:I s:I s:I s:I s:o}", "meets_floor", machine->meets_floor, "sandbox",
                  machine->runs, "images", machine->unpacks_images, "nodes", machine->joins_nodes, "no_nodes", machine->no_nodes,
                  "why", machine->why, "isolation", isolation_name(machine->isolation), "lacks", machine->lacks, "cpus",
                  (json_int_t)machine->cpus, "memory_bytes", (json_int_t)machine->memory_bytes, "make_ms",
                  (json_int_t)machine->make_ms, "start_us", (json_int_t)machine->start_us, "addresses_out_of_reach",
                  (json_int_t)machine->addresses, "devices", devices_as_json(machine));

    if (json == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    TRY(json_write_canonical(text, json, err));
    return buffer_add_text(text, "\n", err);
}
