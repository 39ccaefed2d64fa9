/*
 * A library with the functions of NVML that the runner calls: a machine with three devices. A run can get the first two; the
 * third is in MIG mode. Device 0 is 87 % busy, and its use rises with each question.
 */
#include <stdio.h>

struct memory {
    unsigned long long total, free, used;
};
struct use {
    unsigned gpu, memory;
};

#define DEVICES   3
#define NOT_KNOWN 2 /* NVML_ERROR_INVALID_ARGUMENT */
#define GIB       (1ULL << 30)
#ifndef FAKE_NAME
#define FAKE_NAME "NVIDIA H200"
#endif

static int numbers[DEVICES] = {0, 1, 2};
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
    *device = &numbers[at];
    return 0;
}
int nvmlDeviceGetName(const int *device, char *text, unsigned size)
{
    return snprintf(text, size, "%s", *device == 1 ? "NVIDIA A100-SXM4-40GB" : FAKE_NAME) > 0 ? 0 : NOT_KNOWN;
}
int nvmlDeviceGetUUID(const int *device, char *text, unsigned size)
{
    return snprintf(text, size, "GPU-00000000-1111-2222-3333-44444444444%d", *device) > 0 ? 0 : NOT_KNOWN;
}
int nvmlDeviceGetMinorNumber(const int *device, unsigned *minor)
{
    *minor = (unsigned)*device;
    return 0;
}
int nvmlDeviceGetMemoryInfo(const int *device, struct memory *memory)
{
    *memory = (struct memory){.total = *device == 1 ? 40 * GIB : 141 * GIB, .used = GIB};
    memory->free = memory->total - memory->used;
    return 0;
}
int nvmlDeviceGetUtilizationRates(const int *device, struct use *use)
{
    *use = (struct use){.gpu = *device == 0 && questions++ > 0 ? 87 : 5};
    return 0;
}
int nvmlDeviceGetMigMode(const int *device, unsigned *now, unsigned *pending)
{
    if (*device == 1) return 3; /* NVML_ERROR_NOT_SUPPORTED */
    *now = *pending = *device == 2 ? 1 : 0;
    return 0;
}
