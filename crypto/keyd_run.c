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

/* ---- a request for a token ---- */

static bool is_within(struct bytes value, size_t least, size_t most)
{
    return value.length >= least && value.length <= most;
}

static bool has_bounds(const struct keyd_run_request *wanted)
{
    return is_within(wanted->token, 1, KEYD_TOKEN_MAX) && is_within(wanted->issuer, 1, KEYD_NAME_MAX) &&
           is_within(wanted->audience, 1, KEYD_NAME_MAX) && is_within(wanted->subject_issuer, 0, KEYD_NAME_MAX) &&
           is_within(wanted->project, 1, KEYD_NAME_MAX) && is_within(wanted->spec, 1, KEYD_SPEC_MAX);
}

struct result keyd_write_run_request(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct keyd_run_request *wanted = &request->as.run_request;

    if (!has_bounds(wanted))
        return failure(err, ERROR_LIMIT,
                       "a request by a token has a specification of 1 to %d bytes, and names of 1 to %d: a larger one needs a "
                       "request that its requester has signed",
                       KEYD_SPEC_MAX, KEYD_NAME_MAX);
    TRY(buffer_add_prefixed(frame, wanted->token, err));
    TRY(buffer_add_prefixed(frame, wanted->issuer, err));
    TRY(buffer_add_prefixed(frame, wanted->audience, err));
    TRY(buffer_add_prefixed(frame, wanted->subject_issuer, err));
    TRY(buffer_add(frame, wanted->run.bytes, sizeof wanted->run.bytes, err));
    TRY(buffer_add_prefixed(frame, wanted->project, err));
    TRY(buffer_add_prefixed(frame, wanted->spec, err));
    TRY(buffer_add_u8(frame, wanted->is_rerun, err));
    if (wanted->is_rerun) {
        TRY(buffer_add(frame, wanted->rerun_run.bytes, sizeof wanted->rerun_run.bytes, err));
        TRY(buffer_add(frame, wanted->rerun_order, sizeof wanted->rerun_order, err));
    }
    return buffer_add_u32(frame, wanted->lifetime_s, err);
}

void keyd_read_run_request(struct reader *fields, struct keyd_request *request)
{
    struct keyd_run_request *wanted = &request->as.run_request;

    wanted->token = reader_prefixed(fields, KEYD_TOKEN_MAX);
    wanted->issuer = reader_prefixed(fields, KEYD_NAME_MAX);
    wanted->audience = reader_prefixed(fields, KEYD_NAME_MAX);
    wanted->subject_issuer = reader_prefixed(fields, KEYD_NAME_MAX);
    keyd_read_fixed(fields, wanted->run.bytes, sizeof wanted->run.bytes);
    wanted->project = reader_prefixed(fields, KEYD_NAME_MAX);
    wanted->spec = reader_prefixed(fields, KEYD_SPEC_MAX);
    wanted->is_rerun = keyd_read_flag(fields);
    if (wanted->is_rerun) {
        keyd_read_fixed(fields, wanted->rerun_run.bytes, sizeof wanted->rerun_run.bytes);
        keyd_read_fixed(fields, wanted->rerun_order, sizeof wanted->rerun_order);
    }
    wanted->lifetime_s = reader_u32(fields);
    if (!fields->failed && !has_bounds(wanted)) fields->failed = true;
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
