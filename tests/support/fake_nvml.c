/*
 * A library with the functions of NVML that the runner calls: a machine with three devices. A run can get the first two; the
 * third is in MIG mode, with five parts at most: two of 1g.18gb, at the indexes 0 and 2, and one of 1c.3g.71gb. Device 0 is 87 % busy, and its use rises with each question.
 */
#include <stdio.h>

struct memory {
    unsigned long long total, free, used;
};
struct use {
    unsigned gpu, memory;
};

#ifndef FAKE_DEVICES
#define FAKE_DEVICES 3
#endif
#ifndef FAKE_FIRST
#define FAKE_FIRST 0 /* a pod's container has some of them */
#endif
#define DEVICES   FAKE_DEVICES
#define NOT_KNOWN 2 /* NVML_ERROR_INVALID_ARGUMENT */
#define GIB       (1ULL << 30)
#ifndef FAKE_NAME
#define FAKE_NAME "NVIDIA H200"
#endif

/* 10, 12 and 13: the parts of device 2 */
static int numbers[] = {0, 1, 2, 10, 12, 13};
#ifndef FAKE_PARTS
#define FAKE_PARTS 5
#endif
#define PARTS FAKE_PARTS
static unsigned questions;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlSystemGetDriverVersion(char *text, unsigned size);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned at, int **device);
int nvmlDeviceGetName(const int *device, char *text, unsigned size);
int nvmlDeviceGetUUID(const int *device, char *text, unsigned size);
int nvmlDeviceGetMinorNumber(const int *device, unsigned *minor);
int nvmlDeviceGetMemoryInfo(const int *device, struct memory *memory);
int nvmlDeviceGetUtilizationRates(const int *device, struct use *use);
int nvmlDeviceGetMigMode(const int *device, unsigned *now, unsigned *pending);
int nvmlDeviceGetMaxMigDeviceCount(const int *device, unsigned *count);
int nvmlDeviceGetMigDeviceHandleByIndex(const int *device, unsigned at, int **part);
int nvmlDeviceGetGpuInstanceId(const int *part, unsigned *id);
int nvmlDeviceGetComputeInstanceId(const int *part, unsigned *id);

static int is_part(const int *device)
{
    return *device >= 10;
}

int nvmlInit_v2(void)
{
    return 0;
}
int nvmlShutdown(void)
{
    return 0;
}
int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    return snprintf(text, size, "570.86.15") > 0 ? 0 : NOT_KNOWN;
}
int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = DEVICES;
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned at, int **device)
{
    if (at >= DEVICES) return NOT_KNOWN;
    *device = &numbers[FAKE_FIRST + at];
    return 0;
}
int nvmlDeviceGetName(const int *device, char *text, unsigned size)
{
    const char *part = !is_part(device) ? "" : *device == 13 ? " MIG 1c.3g.71gb" : " MIG 1g.18gb";

    return snprintf(text, size, "%s%s", *device == 1 ? "NVIDIA A100-SXM4-40GB" : FAKE_NAME, part) > 0 ? 0 : NOT_KNOWN;
}
int nvmlDeviceGetUUID(const int *device, char *text, unsigned size)
{
    const char *form =
        is_part(device) ? "MIG-00000000-1111-2222-3333-4444444444%02d" : "GPU-00000000-1111-2222-3333-44444444444%d";

    return snprintf(text, size, form, *device) > 0 ? 0 : NOT_KNOWN;
}
int nvmlDeviceGetMinorNumber(const int *device, unsigned *minor)
{
    *minor = (unsigned)*device;
    return is_part(device) ? NOT_KNOWN : 0;
}
int nvmlDeviceGetMemoryInfo(const int *device, struct memory *memory)
{
    *memory = (struct memory){.total = *device == 1      ? 40 * GIB
                                       : *device == 13   ? 71 * GIB
                                       : is_part(device) ? 18 * GIB
                                                         : 141 * GIB,
                              .used = GIB};
    memory->free = memory->total - memory->used;
    return 0;
}
int nvmlDeviceGetUtilizationRates(const int *device, struct use *use)
{
    if (is_part(device)) return 3; /* NVML_ERROR_NOT_SUPPORTED, as of a real part */
    *use = (struct use){.gpu = *device == 0 && questions++ > 0 ? 87 : 5};
    return 0;
}
int nvmlDeviceGetMigMode(const int *device, unsigned *now, unsigned *pending)
{
    if (*device == 1) return 3; /* NVML_ERROR_NOT_SUPPORTED */
    *now = *pending = *device == 2 ? 1 : 0;
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(const int *device, unsigned *count)
{
    *count = *device == 2 ? PARTS : 0;
    return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(const int *device, unsigned at, int **part)
{
    if (*device != 2 || at >= PARTS || at == 1 || at == 4) return 6; /* NVML_ERROR_NOT_FOUND */
    *part = &numbers[3 + (at == 0 ? 0 : at - 1)];
    return 0;
}
int nvmlDeviceGetGpuInstanceId(const int *part, unsigned *id)
{
    *id = (unsigned)*part - 10;
    return is_part(part) ? 0 : NOT_KNOWN;
}
int nvmlDeviceGetComputeInstanceId(const int *part, unsigned *id)
{
    *id = 0;
    return is_part(part) ? 0 : NOT_KNOWN;
}
