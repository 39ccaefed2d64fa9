/* The messages about training runs: each has the bundle, and what the gateway adds to it. */
#include <string.h>

#include "crypto/keyd_protocol_priv.h"

enum { JURISDICTION_MAX = 32, KEY_LENGTH = ECDSA_THUMBPRINT_SIZE - 1 };

static struct result write_order(struct buffer *frame, const struct keyd_run *run, struct error *err)
{
    if (run->jurisdiction_count == 0 || run->jurisdiction_count > KEYD_RUN_JURISDICTIONS_MAX)
        return failure(err, ERROR_INVALID, "an order has 1 to %d jurisdictions", KEYD_RUN_JURISDICTIONS_MAX);
    TRY(buffer_add_u32(frame, run->lifetime_s, err));
    TRY(buffer_add_u8(frame, run->approvals, err));
    TRY(buffer_add_u8(frame, run->signed_request, err));
    TRY(buffer_add_u8(frame, run->attempts, err));
    TRY(buffer_add_u8(frame, (uint8_t)run->jurisdiction_count, err));
    for (size_t i = 0; i < run->jurisdiction_count; i++) {
        if (run->jurisdictions[i].length == 0 || run->jurisdictions[i].length > JURISDICTION_MAX)
            return failure(err, ERROR_INVALID, "a jurisdiction has 1 to %d letters", JURISDICTION_MAX);
        TRY(buffer_add_prefixed(frame, run->jurisdictions[i], err));
    }
    return SUCCESS;
}

static void read_order(struct reader *fields, struct keyd_run *run)
{
    run->lifetime_s = reader_u32(fields);
    run->approvals = reader_u8(fields);
    run->signed_request = keyd_read_flag(fields);
    run->attempts = reader_u8(fields);
    run->jurisdiction_count = reader_u8(fields);
    if (run->jurisdiction_count == 0 || run->jurisdiction_count > KEYD_RUN_JURISDICTIONS_MAX) fields->failed = true;
    for (size_t i = 0; i < run->jurisdiction_count && !fields->failed; i++) {
        run->jurisdictions[i] = reader_prefixed(fields, JURISDICTION_MAX);
        if (run->jurisdictions[i].length == 0) fields->failed = true;
    }
}

static struct result write_lease(struct buffer *frame, const struct keyd_run *run, struct error *err)
{
    if (run->key.length != KEY_LENGTH)
        return failure(err, ERROR_INVALID, "the thumbprint of a key has %d characters", KEY_LENGTH);
    TRY(buffer_add_u32(frame, run->lifetime_s, err));
    TRY(buffer_add(frame, run->key.data, run->key.length, err));
    TRY(buffer_add_u8(frame, run->attempt, err));
    return buffer_add_u8(frame, run->node, err);
}

static void read_lease(struct reader *fields, struct keyd_run *run)
{
    run->lifetime_s = reader_u32(fields);
    run->key = reader_take(fields, KEY_LENGTH);
    run->attempt = reader_u8(fields);
    run->node = reader_u8(fields);
}

/* The ledger has the digest of an admission that was signed already. The earlier set makes it again, if another set is in force now. */
static struct result write_admission(struct buffer *frame, const struct keyd_run *run, struct error *err)
{
    TRY(buffer_add_u64(frame, run->earlier_epoch, err));
    return buffer_add(frame, run->earlier_policies, sizeof run->earlier_policies, err);
}

static void read_admission(struct reader *fields, struct keyd_run *run)
{
    run->earlier_epoch = reader_u64(fields);
    const struct bytes digest = reader_take(fields, sizeof run->earlier_policies);
    if (digest.length == sizeof run->earlier_policies) memcpy(run->earlier_policies, digest.data, digest.length);
}

struct result keyd_write_run(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct keyd_run *run = &request->as.run;

    if (run->bundle.length == 0 || run->bundle.length > KEYD_RUN_MAX)
        return failure(err, ERROR_LIMIT, "the bundle of a run has 1 to %d bytes", KEYD_RUN_MAX);
    TRY(buffer_add_prefixed(frame, run->bundle, err));
    if (request->type == KEYD_RUN_ORDER) return write_order(frame, run, err);
    return request->type == KEYD_RUN_LEASE ? write_lease(frame, run, err) : write_admission(frame, run, err);
}

void keyd_read_run(struct reader *fields, struct keyd_request *request)
{
    struct keyd_run *run = &request->as.run;

    run->bundle = reader_prefixed(fields, KEYD_RUN_MAX);
    if (run->bundle.length == 0) fields->failed = true;
    if (request->type == KEYD_RUN_ORDER) read_order(fields, run);
    if (request->type == KEYD_RUN_LEASE) read_lease(fields, run);
    if (request->type == KEYD_RUN_ADMISSION) read_admission(fields, run);
}
