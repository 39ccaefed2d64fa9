/*
 * A server that was busy for a minute gives back the memory that it needed. Built without sanitizers, because their heap keeps
 * freed memory for a while (tests/unit/CMakeLists.txt).
 */
#include "tests/support/unit.h"

#include <stdio.h>
#include <unistd.h>

#include "base/blocks.h"
#include "base/memory.h"

enum {
    BLOCK = 256 << 10,
    CLIENTS = 300,
    ROUNDS = 3,
    SPARE = 8 << 20,
};

static size_t resident_bytes(void)
{
    unsigned long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file == NULL || fscanf(file, "%lu %lu", &pages, &resident) != 2) abort(); /* NOLINT(cert-err34-c): the kernel's numbers */
    (void)fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* Each client has a block, and leaves a small object that stays, such as a row of a cache. */
static void be_busy(struct blocks *blocks, char *left[CLIENTS])
{
    uint8_t *taken[CLIENTS];

    for (size_t i = 0; i < CLIENTS; i++) {
        taken[i] = blocks_take(blocks);
        left[i] = memory_copy_text("a name that is kept", 19);
        assert_true(taken[i] != NULL && left[i] != NULL);
        memset(taken[i], 1, BLOCK);
    }
    for (size_t i = 0; i < CLIENTS; i++) blocks_give(blocks, taken[i]);
}

static void what_many_clients_needed_is_given_back(void **state)
{
    static char *left[ROUNDS][CLIENTS];
    OWNED(blocks) *blocks = NULL;
    struct error err = {0};

    (void)state;
    memory_give_back_large();
    assert_true(blocks_new(BLOCK, &blocks, &err).ok);
    const size_t before = resident_bytes();
    for (size_t i = 0; i < ROUNDS; i++) be_busy(blocks, left[i]);
    memory_give_back_free();
    const size_t after = resident_bytes();
    if (after > before + (size_t)BLOCKS_KEPT * BLOCK + SPARE) fail_msg("%zu KiB before, %zu after", before >> 10, after >> 10);
    for (size_t i = 0; i < ROUNDS; i++)
        for (size_t client = 0; client < CLIENTS; client++) free(left[i][client]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_many_clients_needed_is_given_back)};

    return cmocka_run_group_tests_name("memory is given back", tests, NULL, NULL);
}
