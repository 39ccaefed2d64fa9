/*
 * Trains on a device by CUDA's driver alone (libcuda.so.1, at run time): fits the matrix W of Y = X W by gradient descent. It is what a run of
 * script/interop gpu executes in its sandbox. usage: train STEPS. Exit status 3: there is no device; 4: the driver refuses something.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N     1024 /* rows and columns of each matrix */
#define CELLS ((size_t)N * N)
#define BYTES (CELLS * sizeof(float))
#define BLOCK 256

typedef unsigned long long address;
enum { EXIT_NO_DEVICE = 3, EXIT_REFUSED = 4 };

/* member, symbol, parameters: those of cuda.h */
#define FUNCTIONS(X)                                                                                             \
    X(init, "cuInit", (unsigned flags))                                                                          \
    X(count, "cuDeviceGetCount", (int *count))                                                                   \
    X(device, "cuDeviceGet", (int *device, int at))                                                              \
    X(name, "cuDeviceGetName", (char *text, int size, int device))                                               \
    X(uuid, "cuDeviceGetUuid_v2", (unsigned char uuid[16], int device))                                          \
    X(retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                                          \
    X(current, "cuCtxSetCurrent", (void *context))                                                               \
    X(load, "cuModuleLoadData", (void **module, const char *text))                                               \
    X(function, "cuModuleGetFunction", (void **function, void *module, const char *name))                        \
    X(allocate, "cuMemAlloc_v2", (address * memory, size_t bytes))                                               \
    X(give, "cuMemcpyHtoD_v2", (address to, const void *from, size_t bytes))                                     \
    X(take, "cuMemcpyDtoH_v2", (void *to, address from, size_t bytes))                                           \
    X(launch, "cuLaunchKernel",                                                                                  \
      (void *function, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y, unsigned block_z, \
       unsigned shared, void *stream, void **parameters, void **extra))                                          \
    X(wait, "cuCtxSynchronize", (void))

static struct {
#define X(member, symbol, parameters) int(*member) parameters;
    FUNCTIONS(X)
#undef X
} cuda;

/* product: c = a b, or with `turned` c = a^T b. combine: x = x + s y. */
static const char kernels[] =
    ".version 6.4\n.target sm_70\n.address_size 64\n"
    ".visible .entry product(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u32 pn, .param .u32 turned)\n{\n"
    ".reg .pred %p<4>; .reg .b32 %r<16>; .reg .f32 %f<4>; .reg .b64 %d<12>;\n"
    "ld.param.u64 %d1, [pa]; ld.param.u64 %d2, [pb]; ld.param.u64 %d3, [pc]; ld.param.u32 %r1, [pn]; ld.param.u32 %r2, [turned];\n"
    "cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d2, %d2; cvta.to.global.u64 %d3, %d3;\n"
    "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.u32 %r6, %r3, %r4, %r5; mov.u32 %r7, %ctaid.y;\n"
    "setp.ge.u32 %p1, %r6, %r1; @%p1 bra DONE;\n"
    "setp.eq.u32 %p2, %r2, 0; mul.lo.u32 %r8, %r7, %r1; selp.u32 %r9, %r8, %r7, %p2; selp.u32 %r10, 1, %r1, %p2;\n"
    "mul.wide.u32 %d4, %r9, 4; add.u64 %d4, %d1, %d4; mul.wide.u32 %d5, %r10, 4;\n"
    "mul.wide.u32 %d6, %r6, 4; add.u64 %d6, %d2, %d6; mul.wide.u32 %d7, %r1, 4;\n"
    "mov.f32 %f1, 0f00000000; mov.u32 %r11, 0;\n"
    "LOOP: ld.global.f32 %f2, [%d4]; ld.global.f32 %f3, [%d6]; fma.rn.f32 %f1, %f2, %f3, %f1;\n"
    "add.u64 %d4, %d4, %d5; add.u64 %d6, %d6, %d7; add.u32 %r11, %r11, 1; setp.lt.u32 %p3, %r11, %r1; @%p3 bra LOOP;\n"
    "mad.lo.u32 %r12, %r7, %r1, %r6; mul.wide.u32 %d8, %r12, 4; add.u64 %d9, %d3, %d8; st.global.f32 [%d9], %f1;\n"
    "DONE: ret;\n}\n"
    ".visible .entry combine(.param .u64 px, .param .u64 py, .param .f32 ps)\n{\n"
    ".reg .b32 %r<8>; .reg .f32 %f<5>; .reg .b64 %d<8>;\n"
    "ld.param.u64 %d1, [px]; ld.param.u64 %d2, [py]; ld.param.f32 %f1, [ps];\n"
    "cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d2, %d2;\n"
    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3; mul.wide.u32 %d3, %r4, 4;\n"
    "add.u64 %d4, %d1, %d3; add.u64 %d5, %d2, %d3; ld.global.f32 %f2, [%d4]; ld.global.f32 %f3, [%d5];\n"
    "fma.rn.f32 %f4, %f1, %f3, %f2; st.global.f32 [%d4], %f4; ret;\n}\n";

static void *product, *combine;

static void must(int problem, const char *what)
{
    if (problem == 0) return;
    (void)fprintf(stderr, "%s: CUDA error %d\n", what, problem);
    exit(EXIT_REFUSED);
}

static void find(void *library, const char *symbol, void *function_out, size_t size)
{
    void *found = dlsym(library, symbol);

    if (found == NULL) must(-1, symbol);
    memcpy(function_out, &found, size);
}

static void open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);

    if (library == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        exit(EXIT_NO_DEVICE);
    }
#define X(member, symbol, parameters) find(library, symbol, &cuda.member, sizeof cuda.member);
    FUNCTIONS(X)
#undef X
}

static void show_uuid(const unsigned char uuid[16])
{
    (void)printf("device GPU-");
    for (size_t i = 0; i < 16; i++) (void)printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    (void)printf("\n");
}

static void open_device(void)
{
    unsigned char uuid[16];
    void *context = NULL, *module = NULL;
    int count = 0, device = 0;
    char name[96];

    const int problem = cuda.init(0);
    if (problem != 0 || cuda.count(&count) != 0 || count == 0) {
        (void)fprintf(stderr, "no device: CUDA error %d\n", problem);
        exit(EXIT_NO_DEVICE);
    }
    must(cuda.device(&device, 0), "the device");
    must(cuda.name(name, sizeof name, device), "its name");
    must(cuda.uuid(uuid, device), "its UUID");
    must(cuda.retain(&context, device), "a context");
    must(cuda.current(context), "the context");
    must(cuda.load(&module, kernels), "the kernels");
    must(cuda.function(&product, module, "product"), "product");
    must(cuda.function(&combine, module, "combine"), "combine");
    (void)printf("devices %d\nname %s\n", count, name);
    show_uuid(uuid);
}

static address make(const float *cells)
{
    address memory = 0;

    must(cuda.allocate(&memory, BYTES), "memory");
    must(cuda.give(memory, cells, BYTES), "a copy to the device");
    return memory;
}

static void multiply(address a, address b, address c, unsigned turned)
{
    unsigned n = N;
    void *parameters[] = {&a, &b, &c, &n, &turned};

    must(cuda.launch(product, N / BLOCK, N, 1, BLOCK, 1, 1, 0, NULL, parameters, NULL), "a product");
}

static void add(address x, address y, float factor)
{
    void *parameters[] = {&x, &y, &factor};

    must(cuda.launch(combine, CELLS / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, parameters, NULL), "a sum");
}

static void fill(float *cells, uint32_t seed)
{
    for (size_t i = 0; i < CELLS; i++) {
        seed = seed * 1664525U + 1013904223U;
        cells[i] = (float)(seed >> 8) / 8388608.0F - 1.0F;
    }
}

static double loss(address difference, float *cells)
{
    double sum = 0;

    must(cuda.take(cells, difference, BYTES), "a copy from the device");
    for (size_t i = 0; i < CELLS; i++) sum += (double)cells[i] * (double)cells[i];
    return sum / (double)CELLS;
}

/* Leaves X W - Y in `difference`. */
static void compare(address x, address w, address y, address difference)
{
    multiply(x, w, difference, 0);
    add(difference, y, -1.0F);
}

static void keep(const float *cells)
{
    FILE *file = fopen("/out/weights.bin", "wb");

    if (file == NULL) return;
    if (fwrite(cells, 1, BYTES, file) != BYTES) must(-1, "/out/weights.bin");
    (void)fclose(file);
}

int main(int argc, char **argv)
{
    float *cells = calloc(CELLS, sizeof *cells);
    const long steps = argc > 1 ? strtol(argv[1], NULL, 10) : 100;

    if (cells == NULL) return EXIT_REFUSED;
    open_driver();
    open_device();
    const address w = make(cells), difference = make(cells), gradient = make(cells), y = make(cells);
    fill(cells, 1);
    const address x = make(cells);
    fill(cells, 2);
    multiply(x, make(cells), y, 0);
    compare(x, w, y, difference);
    (void)printf("loss %.6f\n", loss(difference, cells));
    for (long step = 0; step < steps; step++) {
        multiply(x, difference, gradient, 1);
        add(w, gradient, -1.0F / N);
        compare(x, w, y, difference);
    }
    must(cuda.wait(), "training");
    (void)printf("loss %.6f\n", loss(difference, cells));
    must(cuda.take(cells, w, BYTES), "a copy from the device");
    keep(cells);
    free(cells);
    return 0;
}
