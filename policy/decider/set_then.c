#include "policy/decider/set_then.h"

#include <stdlib.h>
#include <string.h>

#include "audit/format/leaf.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/keyd_client.h"
#include "policy/decider/set_load_priv.h"
#include "policy/decider/set_store.h"

#define PAGES_MAX 4096 /* of events that load sets */

/* The set that an event names. */
struct named_set {
    uint64_t epoch; /* 0: none */
    uint8_t digest[SHA256_SIZE];
};

/* "...#sha256:ENVELOPE EPOCH sha256:SET" */
static bool read_name(const char *resource, struct named_set *named)
{
    static const char prefix[] = " sha256:";
    const char *first = strchr(resource, ' '), *second = first == NULL ? NULL : strstr(first + 1, prefix);

    if (second == NULL || strlen(second) != sizeof prefix - 1 + 2 * sizeof named->digest) return false;
    return text_to_u64((struct bytes){(const uint8_t *)first + 1, (size_t)(second - first - 1)}, INT64_MAX, &named->epoch) &&
           text_from_hex(bytes_of_text(second + sizeof prefix - 1), named->digest, sizeof named->digest);
}

/* Of the events up to the moment, the one of the highest epoch. *is_past_out: the next events are later. */
static struct result take_events(const struct pg_rows *rows, int64_t wall_ms, struct named_set *newest, bool *is_past_out,
                                 struct error *err)
{
    struct named_set named;
    struct leaf leaf;

    *is_past_out = false;
    for (size_t i = 0; i < pg_rows_count(rows) && !*is_past_out; i++) {
        TRY(leaf_read(pg_bytes(rows, i, 1), &leaf, err));
        *is_past_out = leaf.time_ms > wall_ms;
        if (*is_past_out || strcmp(leaf.outcome, "allowed") != 0 || !read_name(leaf.targets[0].resource, &named)) continue;
        if (named.epoch > newest->epoch) *newest = named;
    }
    return SUCCESS;
}

static struct result find_event(struct pg *pg, int64_t wall_ms, struct named_set *newest, struct error *err)
{
    uint64_t first = 0;
    size_t count = POLICY_SETS_READ;
    bool is_past = false;

    for (unsigned page = 0; page < PAGES_MAX && count == POLICY_SETS_READ && !is_past; page++) {
        OWNED(pg_rows) *rows = NULL;
        TRY(policy_set_events(pg, INT64_MAX, first, &rows, err)); /* no epoch is so high: no envelope is read */
        count = pg_rows_count(rows);
        TRY(take_events(rows, wall_ms, newest, &is_past, err));
        if (count > 0) first = (uint64_t)pg_int8(rows, count - 1, 0) + 1;
    }
    return SUCCESS;
}

static bool is_named(const struct policy_set *set, const struct named_set *named)
{
    uint8_t digest[SHA256_SIZE];

    policy_set_raw_digest(set, digest);
    return policy_set_epoch(set) == named->epoch && memcmp(digest, named->digest, sizeof digest) == 0;
}

/* Somebody that may sign has signed it, or might then. How many must have, sijil-keyd knows of today alone. */
static bool is_of_signers(struct keyd_client *keyd, struct bytes envelope)
{
    OWNED(document) *document = NULL;
    struct document_trust trust;
    struct error ignored = {0};
    bool is_signed = false;

    if (!document_read(&envelope, 1, &document, &ignored).ok || !policy_set_trust(keyd, &trust, &ignored).ok) return false;
    (void)document_is_signed_by(document, trust.root, &is_signed, &ignored).ok;
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX && !is_signed; i++)
        if (trust.approvers[i].point[0] != 0)
            (void)document_is_signed_by(document, trust.approvers[i].point, &is_signed, &ignored).ok;
    return is_signed;
}

static struct result read_set(struct pg *pg, struct keyd_client *keyd, const struct named_set *named, struct policy_set **set_out,
                              struct error *err)
{
    const struct policy_set_row row = {named->epoch, named->digest};
    OWNED(pg_rows) *rows = NULL;
    OWNED(ecdsa_key) *approver = NULL;
    struct keyd_identity identity;

    TRY(keyd_identify(keyd, &identity, err));
    TRY(policy_set_approver(&identity, &approver, err));
    TRY(policy_set_find_row(pg, &row, &rows, err));
    for (size_t i = 0; approver != NULL && i < pg_rows_count(rows); i++) {
        OWNED(policy_set) *set = NULL;
        struct error ignored = {0};
        const struct bytes envelope = pg_bytes(rows, i, 1);
        if (!policy_set_read_named(envelope, approver, &set, &ignored).ok || !is_named(set, named)) continue;
        if (policy_set_has_approval(set) && !is_of_signers(keyd, envelope)) continue;
        *set_out = GIVE(set);
        return SUCCESS;
    }
    return failure(err, ERROR_CONFLICT,
                   "the policy set of then, of epoch %llu, can't be read: another approver had signed it, or it is not stored",
                   (unsigned long long)named->epoch);
}

struct result policy_set_then(const struct permit *permit, const struct policy_past *past, struct policy_set **set_out,
                              struct error *err)
{
    struct named_set newest = {.epoch = 0};

    (void)permit_resource(permit, past->action);
    *set_out = NULL;
    TRY(find_event(past->pg, past->wall_ms, &newest, err));
    return newest.epoch == 0 ? SUCCESS : read_set(past->pg, past->keyd, &newest, set_out, err);
}
