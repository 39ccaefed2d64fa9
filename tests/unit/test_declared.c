/* Devices of a cluster: as the administrator declares them, and as a pod tells them. */
#include "tests/support/unit.h"

#include "runner/devices/declared.h"

#define H200     "nvidia.com/gpu=2:150754820096:NVIDIA H200"
#define A100     "example.com/a100=1:42949672960:NVIDIA A100-SXM4-40GB"
#define PART     "nvidia.com/mig-1g.18gb=3:19327352832:NVIDIA H200 MIG 1g.18gb"
#define GPU0     "GPU-00000000-1111-2222-3333-444444444440"
#define GPU1     "GPU-00000000-1111-2222-3333-444444444441"
#define MIG0     "MIG-00000000-1111-2222-3333-444444444410"
#define WHOLE(u) u, "NVIDIA H200", "150754820096", "570.86.15"

static const struct text_row {
    const char *name, *text;
    const char *says; /* the part that is wrong; NULL: it is good */
} text_rows[] = {
    {"whole devices", H200, NULL},
    {"parts", PART, NULL},
    {"nothing", "", ": RESOURCE "},
    {"no count", "nvidia.com/gpu", ": RESOURCE "},
    {"none of them", "nvidia.com/gpu=0:1:NVIDIA H200", ": COUNT "},
    {"too many", "nvidia.com/gpu=65:1:NVIDIA H200", ": COUNT "},
    {"no memory", "nvidia.com/gpu=1:0:NVIDIA H200", ": BYTES "},
    {"no type", "nvidia.com/gpu=1:1:", ": TYPE "},
    {"no domain", "gpu=1:1:NVIDIA H200", ": RESOURCE "},
    {"two slashes", "nvidia.com/gpu/x=1:1:NVIDIA H200", ": RESOURCE "},
    {"capitals", "nvidia.com/GPU=1:1:NVIDIA H200", ": RESOURCE "},
    {"a part of an unknown profile", "nvidia.com/mig-1g.18gb=1:1:NVIDIA H200 MIG 1G", ": TYPE "},
    {"a part without a profile", "nvidia.com/mig-1g.18gb=1:1:NVIDIA H200 MIG ", ": TYPE "},
    {"a control character", "nvidia.com/gpu=1:1:NVIDIA\tH200", ": TYPE "},
    {"a count of letters", "nvidia.com/gpu=x:1:NVIDIA H200", ": COUNT "},
    {"bytes with a unit", "nvidia.com/gpu=1:141GiB:NVIDIA H200", ": BYTES "},
    {"no bytes", "nvidia.com/gpu=1:NVIDIA H200", ": BYTES "},
    {"a domain of no letters", "/gpu=1:1:NVIDIA H200", ": RESOURCE "},
};

static void check_text(void **state)
{
    const struct text_row *row = *state;
    struct declared_devices declared = {.count = 0};

    const char *wrong = declared_add(&declared, row->text);
    assert_int_equal(declared.count, row->says == NULL ? 1 : 0);
    if (wrong == NULL || row->says == NULL) assert_ptr_equal(wrong, row->says);
    else if (strstr(wrong, row->says) == NULL) fail_msg("%s", wrong);
}

static void there_are_limits(void **state)
{
    struct declared_devices declared = {.count = 0};

    (void)state;
    assert_null(declared_add(&declared, "nvidia.com/gpu=64:1:NVIDIA H200"));
    assert_non_null(declared_add(&declared, A100));
}

static const struct seen_row {
    const char *name;
    struct run_devices request;
    size_t count;
    const char *texts[9];
    const char *resource; /* NULL: there is no grant, or it is refused with `says` */
    const char *says;
} seen_rows[] = {
    {"one", {.count = 1, .type = "H200"}, 4, {WHOLE(GPU0)}, "nvidia.com/gpu", NULL},
    {"two", {.count = 2, .type = "H200"}, 8, {WHOLE(GPU0), WHOLE(GPU1)}, "nvidia.com/gpu", NULL},
    {"of another type",
     {.count = 1, .type = "A100-SXM4-40GB"},
     4,
     {GPU0, "NVIDIA A100-SXM4-40GB", "42949672960", "1"},
     "example.com/a100",
     NULL},
    {"a part",
     {.count = 1, .mig = "1g.18gb"},
     4,
     {MIG0, "NVIDIA H200 MIG 1g.18gb", "19327352832", "1"},
     "nvidia.com/mig-1g.18gb",
     NULL},
    {"not of two resources", {.count = 3}, 0, {NULL}, NULL, "asked for"},
    {"none there", {.count = 1}, 0, {NULL}, NULL, "1 devices are ordered, and the pod has 0"},
    {"one too few", {.count = 2}, 4, {WHOLE(GPU0)}, NULL, "2 devices are ordered, and the pod has 1"},
    {"one too many", {.count = 1}, 8, {WHOLE(GPU0), WHOLE(GPU1)}, NULL, "1 devices are ordered, and the pod has 2"},
    {"one twice", {.count = 2}, 8, {WHOLE(GPU0), WHOLE(GPU0)}, NULL, "twice"},
    {"no driver", {.count = 1}, 2, {"", "no driver for devices: libnvidia-ml.so.1"}, NULL, "no driver for devices"},
    {"half of one", {.count = 1}, 3, {GPU0, "NVIDIA H200", "1"}, NULL, "the pod has 0"},
    {"a UUID of another form", {.count = 1}, 4, {WHOLE("GPU-xyz")}, NULL, "unknown form"},
    {"a name with control characters", {.count = 1}, 4, {GPU0, "H200\x1b[2J", "150754820096", "1"}, NULL, "unknown form"},
    {"no number", {.count = 1}, 4, {GPU0, "NVIDIA H200", "-1", "1"}, NULL, "unknown form"},
    {"another type than asked for", {.count = 1, .type = "H200"}, 4, {GPU0, "NVIDIA L4", "150754820096", "1"}, NULL, "NVIDIA L4"},
    {"less memory", {.count = 1, .memory_bytes = 1 << 30}, 4, {GPU0, "NVIDIA H200", "1048576", "1"}, NULL, "1 MiB"},
    {"a part in place of the whole",
     {.count = 1, .type = "H200"},
     4,
     {MIG0, "NVIDIA H200 MIG 1g.18gb", "19327352832", "1"},
     NULL,
     "MIG 1g.18gb"},
    {"another part",
     {.count = 1, .mig = "1g.18gb"},
     4,
     {MIG0, "NVIDIA H200 MIG 2g.35gb", "37580963840", "1"},
     NULL,
     "MIG 2g.35gb"},
};

static void check_seen(void **state)
{
    const struct seen_row *row = *state;
    static const char *const use[] = {"87", "1073741824", "5", "1"};
    struct declared_devices declared = {.count = 0};
    struct device_grant grant;
    OWNED(devices) *devices = NULL;
    struct error err = {0};

    assert_null(declared_add(&declared, H200));
    assert_null(declared_add(&declared, A100));
    assert_null(declared_add(&declared, PART));
    assert_true(declared_open(&declared, &devices, &err).ok);
    bool ok = devices_grant(devices, &row->request, "/nowhere", &grant, &err).ok;
    if (ok) assert_string_equal(grant.visible, "");
    if (ok) ok = declared_take_seen(devices, &grant, &row->request, row->texts, row->count, &err).ok;
    if (ok != (row->resource != NULL)) fail_msg("%s", ok ? "it is taken" : err.message);
    if (!ok) {
        assert_int_equal(err.kind, ERROR_DENIED);
        if (strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
        return;
    }
    declared_take_use(devices, &grant, use, 2 * grant.count);
    assert_string_equal(declared_resource(devices, grant.which[0]), row->resource);
    for (size_t i = 0; i < grant.count; i++) assert_string_equal(devices_at(devices, grant.which[i])->uuid, row->texts[4 * i]);
    assert_int_equal(devices_at(devices, grant.which[0])->use_percent, 87);
    devices_sample(devices, &grant); /* there is no driver to ask */
}

static const struct CMUnitTest others[] = {cmocka_unit_test(there_are_limits)};

int main(void)
{
    return RUN_TABLE(text_rows, check_text) + RUN_TABLE(seen_rows, check_seen) + cmocka_run_group_tests(others, NULL, NULL);
}
