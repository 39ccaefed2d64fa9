/* Which leases were proven (gateway/pipeline/lease_proofs.h): exactly these, until they end. */
#include "tests/support/unit.h"

#include <string.h>

#include "gateway/pipeline/lease_proofs.h"

#define KEY     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define OTHER   "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"
#define ORDER   "sha256:0000000000000000000000000000000000000000000000000000000000000000"
#define ORDER_2 "sha256:1111111111111111111111111111111111111111111111111111111111111111"
enum { NOW_MS = 1000, ENDS_MS = 5000 };

static const struct proof_row {
    const char *name;
    struct run_holder holder;
    const char *order;
    int64_t now_ms;
    bool is_found;
} rows[] = {
    {"the lease", {.run = {{1}}, .attempt = 2, .node = 3, .key = KEY}, ORDER, NOW_MS, true},
    {"whatever its order is", {.run = {{1}}, .attempt = 2, .node = 3, .key = KEY}, NULL, NOW_MS, true},
    {"at its last moment", {.run = {{1}}, .attempt = 2, .node = 3, .key = KEY}, ORDER, ENDS_MS - 1, true},
    {"at its end", {.run = {{1}}, .attempt = 2, .node = 3, .key = KEY}, ORDER, ENDS_MS, false},
    {"another order", {.run = {{1}}, .attempt = 2, .node = 3, .key = KEY}, ORDER_2, NOW_MS, false},
    {"another runner", {.run = {{1}}, .attempt = 2, .node = 3, .key = OTHER}, ORDER, NOW_MS, false},
    {"another attempt", {.run = {{1}}, .attempt = 1, .node = 3, .key = KEY}, ORDER, NOW_MS, false},
    {"another node", {.run = {{1}}, .attempt = 2, .node = 4, .key = KEY}, ORDER, NOW_MS, false},
    {"another run", {.run = {{2}}, .attempt = 2, .node = 3, .key = KEY}, ORDER, NOW_MS, false},
    {"another run in the same place", {.run = {{1, 0, 0, 0, 9}}, .attempt = 2, .node = 3, .key = KEY}, ORDER, NOW_MS, false},
};

static void only_what_was_proven_is_found(void **state)
{
    const struct proof_row *row = *state;
    OWNED(lease_proofs) *proofs = NULL;
    struct error err = {0};
    int64_t ends_ms = 0;

    assert_true(lease_proofs_new(&proofs, &err).ok);
    assert_false(lease_proofs_find(proofs, &row->holder, row->order, row->now_ms, &ends_ms));
    lease_proofs_keep(proofs, &rows[0].holder, ORDER, ENDS_MS);
    assert_int_equal(lease_proofs_find(proofs, &row->holder, row->order, row->now_ms, &ends_ms), row->is_found);
    assert_int_equal(ends_ms, row->is_found ? ENDS_MS : 0);
}

static void the_newer_one_has_the_place(void **state)
{
    const struct run_holder *first = &rows[0].holder, *second = &rows[COUNT(rows) - 1].holder;
    OWNED(lease_proofs) *proofs = NULL;
    struct error err = {0};
    int64_t ends_ms = 0;

    (void)state;
    assert_true(lease_proofs_new(&proofs, &err).ok);
    lease_proofs_keep(proofs, first, ORDER, ENDS_MS);
    lease_proofs_keep(proofs, second, ORDER, ENDS_MS);
    assert_true(lease_proofs_find(proofs, second, ORDER, NOW_MS, &ends_ms));
    assert_false(lease_proofs_find(proofs, first, ORDER, NOW_MS, &ends_ms)); /* it is proven again */
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(the_newer_one_has_the_place)};

    return RUN_TABLE(rows, only_what_was_proven_is_found) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
