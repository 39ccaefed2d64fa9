/*
 * Finds the stored set that is in force. sijil-keyd pins a set only on proof from the log that it has signed itself.
 * The database's rows are only hints.
 *
 * The search begins with the events of the log and reads the rows that they name. So a row without an event costs
 * nothing. Each event is checked once, in the order of the log, so false events can't hide a true one.
 */
#include <string.h>

#include "crypto/digest.h"
#include "documents/pin_event.h"
#include "policy/decider/set_load_priv.h"
#include "policy/decider/set_store.h"

#define PAGES_MAX 64 /* of events in one load; the next load continues */

/* An event and the stored set that it names. */
struct candidate {
    struct bytes envelope, leaf;
    uint64_t sequence;
    const struct policy_set *set, *base; /* base: the set in force; NULL: none */
};

/* ERROR_CONFLICT: begin again with the newest state of sijil-keyd. */
static struct result pin(const struct policy_set_source *source, const struct keyd_identity *identity,
                         const struct candidate *candidate, struct error *err)
{
    struct document_pin_request request = {
        .envelope_count = 1, .envelopes = {candidate->envelope}, .leaf = candidate->leaf, .sequence = candidate->sequence};
    const struct document_source database = {source->pg, source->keyd, source->sequencer};
    uint8_t digest[SHA256_SIZE];
    struct document_pin pinned;

    if (candidate->base != NULL) request.base = policy_set_envelope(candidate->base);
    TRY(document_pin_event(&database, identity->log_size, &request, keyd_pin_set, &pinned, err));
    policy_set_raw_digest(candidate->set, digest);
    if (pinned.epoch != policy_set_epoch(candidate->set) || memcmp(pinned.digest, digest, sizeof digest) != 0)
        return failure(err, ERROR_CORRUPT, "keyd has pinned another policy set than it was given");
    return SUCCESS;
}

static bool is_pinned(const struct policy_set *set, const struct keyd_identity *identity)
{
    uint8_t digest[SHA256_SIZE];

    if (set == NULL || policy_set_epoch(set) != identity->policy_epoch) return false;
    policy_set_raw_digest(set, digest);
    return memcmp(digest, identity->policy_digest, sizeof digest) == 0;
}

/* Another gateway has had a newer set pinned, so the search begins again. Else sijil-keyd has refused this candidate for what it is. */
static struct result check_beaten(const struct policy_set_source *source, const struct keyd_identity *identity, struct error *err)
{
    struct keyd_identity now;

    TRY(keyd_identify(source->keyd, &now, err));
    if (now.policy_epoch == identity->policy_epoch) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "another gateway had a newer policy set pinned");
}

/*
 * *fits_out: the set is in force now. Candidates that do not fit are skipped, so an attacker with write access to
 * rows can't stop the registry.
 */
static struct result consider(const struct policy_set_source *source, const struct keyd_identity *identity,
                              const struct candidate *candidate, bool *fits_out, struct error *err)
{
    const struct policy_set_question question = {source->keyd, identity, candidate->base};
    struct error refused = {0};

    *fits_out = false;
    if (policy_set_epoch(candidate->set) <= identity->policy_epoch) return SUCCESS;
    struct result fits = policy_set_judge(&question, candidate->envelope, &refused);
    if (!fits.ok && (refused.kind == ERROR_DENIED || refused.kind == ERROR_INVALID || refused.kind == ERROR_LIMIT))
        return SUCCESS;
    if (fits.ok) fits = pin(source, identity, candidate, &refused);
    *fits_out = fits.ok;
    if (fits.ok || document_is_unconvincing(refused.kind)) return SUCCESS;
    if (refused.kind == ERROR_DENIED) return check_beaten(source, identity, err);
    return failure(err, refused.kind, "%s", refused.message);
}

/* *set_out is NULL for an envelope that is no set, or that the root has not signed although it must. */
static struct result read_stored(struct bytes envelope, const struct ecdsa_key *approver, struct policy_set **set_out,
                                 struct error *err)
{
    struct error refused = {0};

    *set_out = NULL;
    if (envelope.length == 0 || policy_set_read_named(envelope, approver, set_out, &refused).ok) return SUCCESS;
    *set_out = NULL;
    return refused.kind == ERROR_NO_MEMORY ? failure(err, ERROR_NO_MEMORY, "%s", refused.message) : SUCCESS;
}

/* The row whose set is pinned, or NULL. Events before it can't load a newer set. */
static struct result pick_pinned(const struct pg_rows *rows, const struct keyd_identity *identity,
                                 const struct ecdsa_key *approver, struct policy_set **set_out, struct error *err)
{
    *set_out = NULL;
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        OWNED(policy_set) *set = NULL;
        TRY(read_stored(pg_bytes(rows, i, 1), approver, &set, err));
        if (!is_pinned(set, identity)) continue;
        policy_set_note_checked(set, (uint64_t)(pg_int8(rows, i, 0) + 1));
        *set_out = GIVE(set);
        return SUCCESS;
    }
    return SUCCESS;
}

/* Finds the pinned set by the event that loaded it. If the log no longer has that event, finds it by its row. */
static struct result find_pinned(const struct policy_set_source *source, const struct keyd_identity *identity,
                                 const struct ecdsa_key *approver, struct policy_set **set_out, struct error *err)
{
    const struct policy_set_row pinned = {.epoch = identity->policy_epoch, .digest = identity->policy_digest};
    uint64_t first = 0;

    for (size_t count = POLICY_SETS_READ; count == POLICY_SETS_READ;) {
        OWNED(pg_rows) *rows = NULL;
        TRY(policy_set_find(source->pg, &pinned, first, &rows, err));
        TRY(pick_pinned(rows, identity, approver, set_out, err));
        if (*set_out != NULL) return SUCCESS;
        count = pg_rows_count(rows);
        if (count > 0) first = (uint64_t)pg_int8(rows, count - 1, 0) + 1;
    }
    OWNED(pg_rows) *claims = NULL;
    TRY(policy_set_find_row(source->pg, &pinned, &claims, err));
    TRY(pick_pinned(claims, identity, approver, set_out, err));
    if (*set_out != NULL) return SUCCESS;
    return failure(err, ERROR_CORRUPT, "keyd has pinned policy epoch %llu, and the database does not have that set",
                   (unsigned long long)identity->policy_epoch);
}

static void replace(struct policy_set **set, struct policy_set *by)
{
    policy_set_free(*set);
    *set = by;
}

/* Checks one event: if sijil-keyd pins the set that it names, that replaces *set. */
static struct result check_event(const struct policy_set_source *source, struct keyd_identity *identity,
                                 const struct ecdsa_key *approver, const struct candidate *event, struct policy_set **set,
                                 struct error *err)
{
    struct candidate candidate = *event;
    OWNED(policy_set) *named = NULL;
    bool fits = false;

    TRY(read_stored(event->envelope, approver, &named, err));
    candidate.set = named;
    candidate.base = *set;
    if (named != NULL) TRY(consider(source, identity, &candidate, &fits, err));
    if (fits) {
        identity->policy_epoch = policy_set_epoch(named);
        policy_set_raw_digest(named, identity->policy_digest);
        replace(set, GIVE(named));
    }
    if (*set != NULL) policy_set_note_checked(*set, event->sequence + 1);
    return SUCCESS;
}

/*
 * Checks the events after those that were checked for *set. Each event is checked once; if a check fails with an
 * error, the next load begins with that event.
 */
static struct result check_new_events(const struct policy_set_source *source, const struct keyd_identity *identity,
                                      const struct ecdsa_key *approver, struct policy_set **set, struct error *err)
{
    struct keyd_identity now = *identity;
    uint64_t first = *set == NULL ? 0 : policy_set_checked_until(*set);
    size_t count = POLICY_SETS_READ;

    for (unsigned page = 0; page < PAGES_MAX && count == POLICY_SETS_READ; page++) {
        OWNED(pg_rows) *rows = NULL;
        TRY(policy_set_events(source->pg, now.policy_epoch + 1, first, &rows, err));
        count = pg_rows_count(rows);
        for (size_t i = 0; i < count; i++) {
            const struct candidate event = {pg_bytes(rows, i, 2), pg_bytes(rows, i, 1), (uint64_t)pg_int8(rows, i, 0), NULL,
                                            NULL};
            TRY(check_event(source, &now, approver, &event, set, err));
            first = event.sequence + 1;
        }
    }
    return SUCCESS;
}

/* For reports only, so a failure does not delay rights: the count then stays as it was. */
static void count_unrecorded(struct policy_set_source *source, const struct policy_set *set)
{
    struct error err = {0};
    struct unrecorded_sets unrecorded;
    const uint64_t epoch = set == NULL ? 0 : policy_set_epoch(set), first = set == NULL ? 0 : policy_set_checked_until(set);

    if (policy_sets_unrecorded(source->pg, epoch, first, &unrecorded, &err).ok) source->unrecorded = unrecorded;
}

static struct result load_once(struct policy_set_source *source, struct policy_set *current, struct policy_set **set_out,
                               struct error *err)
{
    OWNED(ecdsa_key) *approver = NULL;
    OWNED(policy_set) *set = NULL;
    struct keyd_identity identity;

    TRY(keyd_identify(source->keyd, &identity, err));
    TRY(policy_set_approver(&identity, &approver, err));
    if (approver != NULL) {
        if (is_pinned(current, &identity)) set = policy_set_keep(current);
        else if (identity.policy_epoch != 0) TRY(find_pinned(source, &identity, approver, &set, err));
        TRY(check_new_events(source, &identity, approver, &set, err));
    }
    count_unrecorded(source, set);
    *set_out = GIVE(set);
    return SUCCESS;
}

struct result policy_set_load(struct policy_set_source *source, struct policy_set *current, struct policy_set **set_out,
                              struct error *err)
{
    for (unsigned i = 0; i < DOCUMENT_PIN_TRIES; i++) {
        const struct result loaded = load_once(source, current, set_out, err);
        if (loaded.ok || err->kind != ERROR_CONFLICT) return loaded;
    }
    return failure(err, ERROR_UNAVAILABLE, "other gateways have the log signed faster than a policy set can be pinned");
}
