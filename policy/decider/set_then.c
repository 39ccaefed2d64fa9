#include "policy/decider/set_then.h"

#include <stdlib.h>
#include <string.h>

#include "audit/format/leaf.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/keyd_client.h"
#include "documents/format/set_approval.h"
#include "policy/decider/set_load_priv.h"
#include "policy/decider/set_store.h"

#define PAGES_MAX 4096 /* of events that load sets */

/* The set that an event names. */
struct named_set {
    uint64_t epoch; /* 0: none */
    uint8_t digest[SHA256_SIZE];
    int64_t time_ms;
};

/* All events that loaded sets, the oldest first. */
struct loads {
    size_t count, room;
    struct named_set *each;
};

static void loads_done(struct loads *loads)
{
    free(loads->each);
}
#define OWNED_LOADS __attribute__((cleanup(loads_done))) struct loads

/* "...#sha256:ENVELOPE EPOCH sha256:SET" */
static bool read_name(const char *resource, struct named_set *named)
{
    static const char prefix[] = " sha256:";
    const char *first = strchr(resource, ' '), *second = first == NULL ? NULL : strstr(first + 1, prefix);

    if (second == NULL || strlen(second) != sizeof prefix - 1 + 2 * sizeof named->digest) return false;
    return text_to_u64((struct bytes){(const uint8_t *)first + 1, (size_t)(second - first - 1)}, INT64_MAX, &named->epoch) &&
           text_from_hex(bytes_of_text(second + sizeof prefix - 1), named->digest, sizeof named->digest);
}

static struct result add_load(struct loads *loads, const struct named_set *named, struct error *err)
{
    if (loads->count == loads->room) {
        const size_t room = loads->room == 0 ? POLICY_SETS_READ : 2 * loads->room;
        struct named_set *grown = memory_resize(loads->each, room * sizeof *grown);
        if (grown == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the policy sets of the log");
        loads->each = grown;
        loads->room = room;
    }
    loads->each[loads->count++] = *named;
    return SUCCESS;
}

static struct result take_events(const struct pg_rows *rows, struct loads *loads, struct error *err)
{
    struct named_set named;
    struct leaf leaf;

    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        TRY(leaf_read(pg_bytes(rows, i, 1), &leaf, err));
        named.time_ms = leaf.time_ms;
        if (strcmp(leaf.outcome, "allowed") == 0 && read_name(leaf.targets[0].resource, &named))
            TRY(add_load(loads, &named, err));
    }
    return SUCCESS;
}

static struct result find_events(struct pg *pg, struct loads *loads, struct error *err)
{
    uint64_t first = 0;
    size_t count = POLICY_SETS_READ;

    for (unsigned page = 0; page < PAGES_MAX && count == POLICY_SETS_READ; page++) {
        OWNED(pg_rows) *rows = NULL;
        TRY(policy_set_events(pg, INT64_MAX, first, &rows, err)); /* no epoch is so high: no envelope is read */
        count = pg_rows_count(rows);
        TRY(take_events(rows, loads, err));
        if (count > 0) first = (uint64_t)pg_int8(rows, count - 1, 0) + 1;
    }
    return SUCCESS;
}

static bool is_same_set(const struct named_set *one, const struct named_set *other)
{
    return one->epoch == other->epoch && memcmp(one->digest, other->digest, sizeof one->digest) == 0;
}

/* The oldest event that loaded it; NULL: none did. */
static const struct named_set *event_of(const struct loads *loads, const struct named_set *named)
{
    for (size_t i = 0; i < loads->count; i++)
        if (is_same_set(&loads->each[i], named)) return &loads->each[i];
    return NULL;
}

static bool is_named(const struct policy_set *set, const struct named_set *named)
{
    uint8_t digest[SHA256_SIZE];

    policy_set_raw_digest(set, digest);
    return policy_set_epoch(set) == named->epoch && memcmp(digest, named->digest, sizeof digest) == 0;
}

/* must: the root has signed it. Else somebody that may sign has, or might then. How many must have, sijil-keyd knows of today alone. */
static bool is_of_signers(struct keyd_client *keyd, struct bytes envelope, bool must)
{
    OWNED(document) *document = NULL;
    struct document_trust trust;
    struct error ignored = {0};
    bool is_signed = false;

    if (!document_read(&envelope, 1, &document, &ignored).ok || !policy_set_trust(keyd, &trust, &ignored).ok) return false;
    (void)document_is_signed_by(document, trust.root, &is_signed, &ignored).ok;
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX && !is_signed && !must; i++)
        if (trust.approvers[i].point[0] != 0)
            (void)document_is_signed_by(document, trust.approvers[i].point, &is_signed, &ignored).ok;
    return is_signed;
}

/* must: the root's signature; else that of somebody who may sign. *set_out NULL: no envelope that an event names is so. */
static struct result look_for(const struct policy_past *past, const struct named_set *named, bool must,
                              struct policy_set **set_out, struct error *err)
{
    const struct policy_set_row row = {named->epoch, named->digest};
    OWNED(pg_rows) *rows = NULL;
    OWNED(ecdsa_key) *approver = NULL;
    struct keyd_identity identity;

    *set_out = NULL;
    TRY(keyd_identify(past->keyd, &identity, err));
    TRY(policy_set_approver(&identity, &approver, err));
    TRY(policy_set_find(past->pg, &row, 0, &rows, err));
    for (size_t i = 0; approver != NULL && i < pg_rows_count(rows) && *set_out == NULL; i++) {
        OWNED(policy_set) *set = NULL;
        struct error ignored = {0};
        const struct bytes envelope = pg_bytes(rows, i, 1);
        if (!policy_set_read_named(envelope, approver, &set, &ignored).ok || !is_named(set, named)) continue;
        if (policy_set_has_approval(set) && !is_of_signers(past->keyd, envelope, must)) continue;
        *set_out = GIVE(set);
    }
    return SUCCESS;
}

static struct result read_set(const struct policy_past *past, const struct named_set *named, struct policy_set **set_out,
                              struct error *err)
{
    TRY(look_for(past, named, false, set_out, err));
    if (*set_out != NULL) return SUCCESS;
    return failure(err, ERROR_CONFLICT,
                   "the policy set of then, of epoch %llu, can't be read: another approver had signed it, or it is not stored",
                   (unsigned long long)named->epoch);
}

/* What replaces a set that the log does not name was refused. */
static bool may_have_followed(const struct policy_set *set, const struct loads *loads)
{
    struct set_approval approval;
    struct named_set base;
    struct error ignored = {0};

    if (!set_approval_read(policy_set_json(set), &approval, &ignored).ok) return false;
    base.epoch = approval.base.epoch;
    memcpy(base.digest, approval.base.digest, sizeof base.digest);
    return !approval.is_there || base.epoch == 0 || event_of(loads, &base) != NULL;
}

static struct named_set highest_below(const struct loads *loads, uint64_t epoch)
{
    struct named_set highest = {.epoch = 0};

    for (size_t i = 0; i < loads->count; i++)
        if (loads->each[i].epoch < epoch && loads->each[i].epoch > highest.epoch) highest = loads->each[i];
    return highest;
}

/* A set that does not say what it replaces is the root's alone. So was the one before it: the one of the highest epoch below, signed by the root. */
static struct result find_below(const struct policy_past *past, const struct loads *loads, struct named_set *named,
                                struct error *err)
{
    struct named_set below = highest_below(loads, named->epoch);
    bool is_found = below.epoch == 0;

    while (!is_found) {
        OWNED(policy_set) *set = NULL;
        TRY(look_for(past, &below, true, &set, err));
        is_found = set != NULL && may_have_followed(set, loads);
        if (!is_found) below = highest_below(loads, below.epoch);
        if (below.epoch == 0) is_found = true;
    }
    *named = below;
    return SUCCESS;
}

/* sijil-keyd has pinned `named` over the set that it says it replaces, so that one was in force before it. */
static struct result step_back(const struct policy_past *past, const struct loads *loads, struct named_set *named,
                               struct error *err)
{
    struct set_approval approval;
    OWNED(policy_set) *set = NULL;

    TRY(read_set(past, named, &set, err));
    TRY(set_approval_read(policy_set_json(set), &approval, err));
    if (!approval.is_there) return find_below(past, loads, named, err);
    named->epoch = approval.base.epoch;
    memcpy(named->digest, approval.base.digest, sizeof named->digest);
    return SUCCESS;
}

/* Back from the set that is pinned now, so a set that the log names and sijil-keyd has refused is never taken for one that was in force. */
static struct result find_then(const struct policy_past *past, const struct loads *loads, struct named_set *then,
                               struct error *err)
{
    struct keyd_identity identity;

    TRY(keyd_identify(past->keyd, &identity, err));
    then->epoch = identity.policy_epoch;
    memcpy(then->digest, identity.policy_digest, sizeof then->digest);
    while (then->epoch > 0) {
        const struct named_set *event = event_of(loads, then);
        if (event != NULL && event->time_ms <= past->wall_ms) return SUCCESS;
        const uint64_t above = then->epoch;
        TRY(step_back(past, loads, then, err));
        if (then->epoch >= above) return failure(err, ERROR_CORRUPT, "the policy sets of the log replace each other in a circle");
    }
    return SUCCESS;
}

struct result policy_set_then(const struct permit *permit, const struct policy_past *past, struct policy_set **set_out,
                              struct error *err)
{
    struct named_set then = {.epoch = 0};
    OWNED_LOADS loads = {.count = 0};

    (void)permit_resource(permit, past->action);
    *set_out = NULL;
    TRY(find_events(past->pg, &loads, err));
    TRY(find_then(past, &loads, &then, err));
    return then.epoch == 0 ? SUCCESS : read_set(past, &then, set_out, err);
}
