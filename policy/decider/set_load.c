#include "audit/job_permit.h"
#include "policy/decider/set_load_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "documents/format/set_change.h"
#include "documents/format/set_exceptions.h"
#include "policy/decider/set_install.h"
#include "policy/decider/set_store.h"
#include "policy/decider/stored_label_priv.h"
#include "policy/places.h"
#include "policy/restriction.h"
#include "policy/set_change.h"

static const struct resource the_system = {.kind = RESOURCE_SYSTEM};

void policy_set_raw_digest(const struct policy_set *set, uint8_t raw_out[SHA256_SIZE])
{
    (void)text_from_hex(bytes_of_text(policy_set_digest(set) + strlen("sha256:")), raw_out, SHA256_SIZE);
}

/*
 * The labels of the previous set are known only if no other set was loaded in between. Events that the loader has
 * checked are skipped: the sets that they name are not in force, and can't become so.
 */
static struct result check_before(struct pg *pg, const struct policy_set_change *load, struct error *err)
{
    const uint64_t epoch = load->before == NULL ? 0 : policy_set_epoch(load->before);
    const uint64_t first = load->before == NULL ? 0 : policy_set_checked_until(load->before);
    bool is_awaited = false;

    if (policy_set_epoch(load->set) <= epoch)
        return failure(err, ERROR_CONFLICT, "policy epoch %llu is in force: sign with a larger one", (unsigned long long)epoch);
    TRY(policy_set_is_awaited(pg, epoch + 1, first, &is_awaited, err));
    if (!is_awaited) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "a policy set that is not in force is stored already: %s",
                   "try again, with a larger epoch than that of any other");
}

static struct result end_draft(struct pg *pg, const char *name, struct error *err)
{
    bool was_there = false;

    TRY(policy_draft_remove(pg, name, &was_there, err));
    return was_there ? SUCCESS : failure(err, ERROR_CONFLICT, "the draft has come into force or was discarded meanwhile");
}

static struct result insert(const struct permit *permit, struct pg *pg, const struct policy_set_change *load, struct error *err)
{
    struct document document = {
        .kind = DOCUMENT_POLICY_SET, .name = DOCUMENT_POLICY_SET_NAME, .version = policy_set_epoch(load->set)};
    const struct document_row row = {ACTION_POLICY_LOAD, &document, &load->envelope, 1, load->loaded_by};

    memcpy(document.digest, load->digest, sizeof document.digest);
    TRY(check_before(pg, load, err));
    TRY(policy_set_check_evidence(load->set, load->before, err));
    if (load->draft != NULL) TRY(end_draft(pg, load->draft, err));
    TRY(policy_set_insert(permit, pg, &row, err));
    return stored_labels_keep(pg, load, err);
}

static struct result run_change(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct policy_set_change *load = (const struct policy_set_change *)change; /* its first member */

    permit_require(permit, ACTION_POLICY_LOAD, &the_system);
    return insert(permit, pg, load, err);
}

void policy_set_load_change(struct policy_set_change *change, struct bytes envelope, const struct policy_set *set,
                            const struct policy_set *before, const char *loaded_by)
{
    *change = (struct policy_set_change){.change = {.run = run_change, .raises_epoch = true},
                                         .envelope = envelope,
                                         .set = set,
                                         .before = before,
                                         .now_us = clock_wall_ms() * 1000};
    policy_set_raw_digest(set, change->digest);
    (void)snprintf(change->loaded_by, sizeof change->loaded_by, "%s", loaded_by);
    policy_load_detail(envelope, policy_set_epoch(set), change->digest, change->detail);
    change->change.detail = change->detail;
}

struct result policy_set_approver(const struct keyd_identity *identity, struct ecdsa_key **key_out, struct error *err)
{
    static const uint8_t unset[sizeof identity->approver_root];

    if (memcmp(identity->approver_root, unset, sizeof unset) == 0) {
        *key_out = NULL;
        return SUCCESS;
    }
    return ecdsa_key_from_public(identity->approver_root, key_out, err);
}

struct result policy_set_trust(struct keyd_client *keyd, struct document_trust *trust_out, struct error *err)
{
    struct document_trust trust = {.now_ms = clock_wall_ms()};
    struct keyd_documents pinned;

    TRY(keyd_ask_documents(keyd, &pinned, err));
    TRY(keyd_root_terms(keyd, &trust.terms, err));
    memcpy(trust.root, pinned.root, sizeof trust.root);
    memcpy(trust.approvers, pinned.approvers, sizeof trust.approvers);
    *trust_out = trust;
    return SUCCESS;
}

static struct result unused_ids(struct keyd_client *keyd, const struct document *document, uint64_t *unused_out,
                                struct error *err)
{
    struct keyd_policy_ids ids;

    set_policy_ids(document, &ids);
    return keyd_ask_policy_ids(keyd, &ids, unused_out, err);
}

static bool is_in_force(const struct keyd_identity *identity, const struct policy_set *set)
{
    uint8_t digest[SHA256_SIZE];

    policy_set_raw_digest(set, digest);
    return policy_set_epoch(set) == identity->policy_epoch && memcmp(digest, identity->policy_digest, sizeof digest) == 0;
}

/* As sijil-keyd judges it: documents/format/set_change.h. */
static struct result judge_change(const struct policy_set_question *question, const struct document *document,
                                  struct document_trust *trust, struct error *err)
{
    struct set_judging judging = {.check = policy_set_change_to_pin, .pinned.epoch = question->identity->policy_epoch};
    bool is_asked = false;

    if (document_root_is_one(trust) && set_exception_count(document) == 0) return SUCCESS;
    if (question->base == NULL && question->identity->policy_epoch == 0)
        return SUCCESS; /* nothing holds yet: all exceptions are new */
    if (question->base == NULL || !is_in_force(question->identity, question->base))
        return failure(err, ERROR_UNAVAILABLE, "another policy set has just come into force: try again");
    judging.base = policy_set_envelope(question->base);
    memcpy(judging.pinned.digest, question->identity->policy_digest, sizeof judging.pinned.digest);
    TRY(unused_ids(question->keyd, document, &judging.unused, err));
    return set_judge(&judging, document, trust, &is_asked, err);
}

struct result policy_set_judge(const struct policy_set_question *question, struct bytes envelope, struct error *err)
{
    struct document_pin pinned = {.epoch = question->identity->policy_epoch};
    OWNED(document) *document = NULL;
    struct document_trust trust;

    memcpy(pinned.digest, question->identity->policy_digest, sizeof pinned.digest);
    TRY(document_read(&envelope, 1, &document, err));
    TRY(policy_set_trust(question->keyd, &trust, err));
    TRY(set_check_base(document, &pinned, trust.now_ms, err));
    TRY(judge_change(question, document, &trust, err));
    return document_check(document, &trust, err);
}

struct result policy_set_foresee(struct keyd_client *keyd, const struct policy_set *base, struct bytes payload,
                                 struct set_change_found *found_out, struct error *err)
{
    struct policy_succession succession = {.base = base, .now_ms = clock_wall_ms()};
    OWNED(document) *document = NULL;
    OWNED(policy_set) *next = NULL;

    *found_out = (struct set_change_found){.change = SET_CHANGES};
    if (base == NULL) return SUCCESS; /* nothing holds yet, and the root is one */
    TRY(document_read_payload(DOCUMENT_POLICY_SET, payload, &document, err));
    TRY(policy_set_compile(payload, &next, err));
    TRY(unused_ids(keyd, document, &succession.unused, err));
    succession.next = next;
    return policy_succession_judge(&succession, found_out, err);
}

/* Parses an envelope that is in force, or that sijil-keyd could pin now. */
static struct result read_signed(struct policy_set_question *question, struct bytes envelope, struct keyd_identity *identity_out,
                                 struct policy_set **set_out, struct error *err)
{
    OWNED(ecdsa_key) *approver = NULL;
    OWNED(policy_set) *set = NULL;

    TRY(keyd_identify(question->keyd, identity_out, err));
    question->identity = identity_out;
    TRY(policy_set_approver(identity_out, &approver, err));
    if (approver == NULL) return failure(err, ERROR_DENIED, "no approver of policy sets is pinned yet");
    TRY(policy_set_read_named(envelope, approver, &set, err));
    if (!is_in_force(identity_out, set)) TRY(policy_set_judge(question, envelope, err));
    *set_out = GIVE(set);
    return SUCCESS;
}

static struct result record(struct sequencer *sequencer, struct policy_set_change *load, struct error *err)
{
    const struct action_pair pair = {.action = ACTION_POLICY_LOAD, .resource = the_system};
    struct record record;

    TRY(record_prepare_for_job(&pair, &load->change, &record, err));
    sequencer_submit_and_wait(sequencer, &record);
    const enum record_status status = record.status;
    const struct error why = record.error;
    record_done(&record);
    if (status == RECORD_DONE) return SUCCESS;
    return failure(err, why.kind == ERROR_NONE ? ERROR_UNAVAILABLE : why.kind, "the policy set could not be loaded: %.200s",
                   why.message);
}

/* If an initialisation was interrupted after the record, policy_set_load() pins the recorded set here. */
static struct result record_once(struct policy_set_source *source, struct bytes envelope, const struct policy_set *set,
                                 struct error *err)
{
    OWNED(policy_set) *before = NULL;
    struct policy_set_change load;

    TRY(policy_set_load(source, NULL, &before, err));
    if (before != NULL && strcmp(policy_set_digest(before), policy_set_digest(set)) == 0)
        return SUCCESS; /* the digest covers the epoch */
    policy_set_load_change(&load, envelope, set, before, "system");
    return record(source->sequencer, &load, err);
}

struct result policy_set_install(struct policy_set_source *source, struct bytes envelope, struct error *err)
{
    OWNED(policy_set) *set = NULL;
    OWNED(policy_set) *in_force = NULL;
    struct policy_set_question question = {.keyd = source->keyd}; /* the first set: the root is one */
    struct keyd_identity identity;

    TRY(read_signed(&question, envelope, &identity, &set, err));
    TRY(record_once(source, envelope, set, err));
    TRY(policy_set_load(source, NULL, &in_force, err));
    if (in_force != NULL && policy_set_epoch(in_force) >= policy_set_epoch(set))
        return SUCCESS; /* a newer set may have been loaded */
    return failure(err, ERROR_UNAVAILABLE, "the policy set is loaded, but sijil-keyd has not pinned it");
}

struct result policy_set_check_repeated(const struct policy_set_source *source, struct bytes envelope,
                                        const struct policy_set *in_force, struct error *err)
{
    OWNED(policy_set) *set = NULL;
    OWNED(pg_rows) *loaded = NULL;
    struct policy_set_question question = {.keyd = source->keyd, .base = in_force};
    struct keyd_identity identity;
    uint8_t digest[SHA256_SIZE];

    TRY(read_signed(&question, envelope, &identity, &set, err));
    if (strcmp(policy_set_digest(set), policy_set_digest(in_force)) == 0) return SUCCESS;
    policy_set_raw_digest(set, digest);
    const struct policy_set_row row = {policy_set_epoch(set), digest};
    TRY(policy_set_find(source->pg, &row, 0, &loaded, err));
    if (pg_rows_count(loaded) > 0) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "another policy set is in force, of epoch %llu: load this one with 'sijil policy load'",
                   (unsigned long long)policy_set_epoch(in_force));
}

struct result policy_set_check(struct keyd_client *keyd, const struct policy_set *base, struct bytes envelope,
                               struct policy_set **set_out, struct error *err)
{
    struct policy_set_question question = {.keyd = keyd, .base = base};
    OWNED(policy_set) *set = NULL;
    struct keyd_identity identity;

    TRY(read_signed(&question, envelope, &identity, &set, err));
    if (policy_set_epoch(set) <= identity.policy_epoch)
        return failure(err, ERROR_CONFLICT, "policy epoch %llu is in force; a new set needs a larger one than that",
                       (unsigned long long)identity.policy_epoch);
    TRY(places_check(set, err));
    TRY(policy_restrictions_refuse(set, err));
    *set_out = GIVE(set);
    return SUCCESS;
}
