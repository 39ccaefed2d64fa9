#include "policy/set_load.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/keyd_client.h"
#include "policy/set_store.h"
#include "policy/stored_label_priv.h"

static const struct resource the_system = {.kind = RESOURCE_SYSTEM};

/* "sha256:..." that the set has checked -> its bytes. */
static void raw_digest(const char *text, uint8_t raw[SHA256_SIZE])
{
    (void)text_from_hex(bytes_of_text(text + strlen("sha256:")), raw, SHA256_SIZE);
}

/* What the set before has labelled is known only if no other came between. */
static struct result insert(struct pg *pg, const struct policy_set_change *load, struct error *err)
{
    const struct policy_set_row row = {policy_set_epoch(load->set), load->digest, load->envelope, load->loaded_by};
    bool has_newer = false;

    TRY(policy_set_has_newer(pg, load->before == NULL ? 0 : policy_set_epoch(load->before), &has_newer, err));
    if (has_newer) return failure(err, ERROR_CONFLICT, "a policy set that is not in force is stored already: %s",
                                  "try again, with a larger epoch than that of any other");
    TRY(policy_set_insert(pg, &row, err));
    return stored_labels_keep(pg, load, err);
}

static struct result run_change(struct change *change, struct pg *pg, const struct permit *permit, struct error *err)
{
    const struct policy_set_change *load = (const struct policy_set_change *)change; /* its first member */

    permit_require(permit, ACTION_POLICY_LOAD, &the_system);
    return insert(pg, load, err);
}

void policy_set_load_change(struct policy_set_change *change, struct bytes envelope, const struct policy_set *set,
                            const struct policy_set *before, const char *loaded_by)
{
    *change = (struct policy_set_change){.change = {.run = run_change, .raises_epoch = true},
                                         .envelope = envelope,
                                         .set = set,
                                         .before = before,
                                         .now_us = clock_wall_ms() * 1000};
    raw_digest(policy_set_digest(set), change->digest);
    (void)snprintf(change->loaded_by, sizeof change->loaded_by, "%s", loaded_by);
}

/* NULL: no approver is pinned yet, so no set counts. */
static struct result approver_of(const struct keyd_identity *identity, struct ecdsa_key **key_out, struct error *err)
{
    static const uint8_t unset[sizeof identity->approver_root];

    if (memcmp(identity->approver_root, unset, sizeof unset) == 0) {
        *key_out = NULL;
        return SUCCESS;
    }
    return ecdsa_key_from_public(identity->approver_root, key_out, err);
}

static struct result insert_alone(struct pg *pg, const struct policy_set_change *load, struct error *err)
{
    TRY(pg_begin(pg, err));
    struct result inserted = policy_set_lock(pg, err);
    if (inserted.ok) inserted = insert(pg, load, err);
    if (!inserted.ok) {
        pg_rollback(pg);
        return inserted;
    }
    return pg_commit(pg, err);
}

static struct result pin(struct keyd_client *keyd, struct bytes envelope, const struct policy_set *set,
                         struct error *err)
{
    uint8_t pinned[SHA256_SIZE], digest[SHA256_SIZE];
    uint64_t epoch = 0;

    raw_digest(policy_set_digest(set), digest);
    TRY(keyd_pin_policy(keyd, envelope, &epoch, pinned, err));
    if (epoch != policy_set_epoch(set) || memcmp(pinned, digest, sizeof digest) != 0)
        return failure(err, ERROR_CORRUPT, "keyd has pinned another policy set than it was given");
    return SUCCESS;
}

static bool is_pinned(const struct policy_set *set, const struct keyd_identity *identity)
{
    uint8_t digest[SHA256_SIZE];

    if (set == NULL || policy_set_epoch(set) != identity->policy_epoch) return false;
    raw_digest(policy_set_digest(set), digest);
    return memcmp(digest, identity->policy_digest, sizeof digest) == 0;
}

/* Newest first: the pinned one, or a newer one that was recorded and that keyd then takes. A newer row that is not
 * signed by the approver counts for nothing: whoever can write rows must not be able to stop the registry. */
static struct result choose(const struct policy_set_source *source, const struct keyd_identity *identity,
                            const struct ecdsa_key *approver, struct policy_set **set_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(policy_set_newest(source->pg, identity->policy_epoch, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        OWNED(policy_set) *set = NULL;
        struct error refused = {0};
        const struct bytes envelope = pg_bytes(rows, i, 0);
        if (!policy_set_read(envelope, approver, &set, &refused).ok) {
            if (refused.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "%s", refused.message);
            continue;
        }
        if (!is_pinned(set, identity)) {
            if (policy_set_epoch(set) <= identity->policy_epoch) continue;
            TRY(pin(source->keyd, envelope, set, err));
        }
        *set_out = GIVE(set);
        return SUCCESS;
    }
    if (identity->policy_epoch != 0)
        return failure(err, ERROR_CORRUPT, "keyd has pinned policy epoch %llu, and the database does not have that set",
                       (unsigned long long)identity->policy_epoch);
    *set_out = NULL;
    return SUCCESS;
}

struct result policy_set_load(const struct policy_set_source *source, struct policy_set *current,
                              struct policy_set **set_out, struct error *err)
{
    OWNED(ecdsa_key) *approver = NULL;
    struct keyd_identity identity;
    bool has_newer = false;

    TRY(keyd_identify(source->keyd, &identity, err));
    TRY(policy_set_has_newer(source->pg, identity.policy_epoch, &has_newer, err));
    if (!has_newer && is_pinned(current, &identity)) {
        *set_out = policy_set_keep(current);
        return SUCCESS;
    }
    TRY(approver_of(&identity, &approver, err));
    if (approver == NULL) {
        *set_out = NULL;
        return SUCCESS;
    }
    return choose(source, &identity, approver, set_out, err);
}

static struct result insert_once(const struct policy_set_source *source, struct bytes envelope, const struct policy_set *set,
                                 struct error *err)
{
    OWNED(policy_set) *before = NULL;
    struct policy_set_change load;
    bool is_stored = false;

    policy_set_load_change(&load, envelope, set, NULL, "system");
    const struct policy_set_row row = {policy_set_epoch(set), load.digest, envelope, load.loaded_by};
    TRY(policy_set_is_stored(source->pg, &row, &is_stored, err));
    if (is_stored) return SUCCESS;
    TRY(policy_set_load(source, NULL, &before, err));
    load.before = before;
    return insert_alone(source->pg, &load, err);
}

struct result policy_set_install(struct pg *pg, struct keyd_client *keyd, const struct permit *permit,
                                 struct bytes envelope, struct error *err)
{
    OWNED(ecdsa_key) *approver = NULL;
    OWNED(policy_set) *set = NULL;
    const struct policy_set_source source = {pg, keyd};
    struct keyd_identity identity;

    permit_require(permit, ACTION_POLICY_LOAD, &the_system);
    TRY(keyd_identify(keyd, &identity, err));
    TRY(approver_of(&identity, &approver, err));
    if (approver == NULL)
        return failure(err, ERROR_DENIED, "no approver of policy sets is pinned yet: keyd_pin_approver() first");
    TRY(policy_set_read(envelope, approver, &set, err));
    TRY(insert_once(&source, envelope, set, err));
    return pin(keyd, envelope, set, err);
}

struct result policy_set_check(struct keyd_client *keyd, struct bytes envelope, struct policy_set **set_out,
                               struct error *err)
{
    OWNED(ecdsa_key) *approver = NULL;
    OWNED(policy_set) *set = NULL;
    struct keyd_identity identity;

    TRY(keyd_identify(keyd, &identity, err));
    TRY(approver_of(&identity, &approver, err));
    if (approver == NULL) return failure(err, ERROR_DENIED, "no approver of policy sets is pinned yet");
    TRY(policy_set_read(envelope, approver, &set, err));
    if (policy_set_epoch(set) <= identity.policy_epoch)
        return failure(err, ERROR_CONFLICT, "policy epoch %llu is in force; a new set needs a larger one than that",
                       (unsigned long long)identity.policy_epoch);
    *set_out = GIVE(set);
    return SUCCESS;
}
