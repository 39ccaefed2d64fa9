#include "training/admit_jobs.h"

#include <stdio.h>
#include <string.h>

#include "audit/job_permit.h"
#include "training/admit_priv.h"
#include "training/format/spec.h"
#include "training/lease_jobs.h"
#include "training/log_jobs.h"
#include "training/papers.h"
#include "training/run_priv.h"

static void admitting_done(struct admitting *admitting)
{
    held_manifests_done(&admitting->held);
    buffer_done(&admitting->admission);
    run_papers_free(admitting->papers);
    permit_free(admitting->permit);
}
#define OWNED_ADMITTING __attribute__((cleanup(admitting_done))) struct admitting

/* ---- what was stored ---- */

static struct result read_papers(struct admitting *admitting, struct error *err)
{
    const struct run_papers_query query = {.action = ACTION_RUN_ADMIT, .run = admitting->run.run, .last = RUN_RESULT};

    TRY(run_papers_read(admitting->permit, admitting->source->bundle.pg, &query, &admitting->papers, err));
    const struct run_chain *chain = &admitting->papers->chain;
    if (chain->order == NULL || chain->lease == NULL || chain->certificate == NULL || chain->result == NULL)
        return failure(err, ERROR_CORRUPT, "a finished run lacks its order, lease, certificate or result");
    run_makes_of(chain->order, chain->result, &admitting->makes);
    return SUCCESS;
}

/* Before sijil-keyd is asked. They are read again when they are stored: many nodes have much text together. */
static struct result check_nodes(struct admitting *admitting, struct error *err)
{
    for (size_t i = 0; i < admitting->papers->chain.peer_count && !admit_is_refused(admitting); i++) {
        OWNED_HELD held = {.count = 0};
        TRY(admit_read_node(admitting, i, &held, err));
        for (size_t k = 0; k < held.count && !admit_is_refused(admitting); k++)
            TRY(admit_check_stated(admitting, &held.each[k], err));
    }
    return SUCCESS;
}

/* ---- sijil-keyd ---- */

static struct result sign(struct admitting *admitting, struct keyd_run *wanted, struct error *err)
{
    const struct run_bundle_query query = {.papers = {.action = ACTION_RUN_ADMIT, .run = admitting->run.run, .last = RUN_RESULT},
                                           .is_of_day = true};
    struct buffer OWNED_BUFFER bundle = BUFFER(KEYD_RUN_MAX);

    TRY(run_bundle_make(admitting->permit, &admitting->source->bundle, &query, &bundle, err));
    wanted->bundle = buffer_bytes(&bundle);
    return keyd_run_admission(admitting->source->bundle.keyd, wanted, &admitting->admission, err);
}

static struct result ask_keyd(struct admitting *admitting, struct error *err)
{
    struct run_admission_set set = {.epoch = 0};
    struct keyd_identity identity;
    struct keyd_run wanted = {.attempt = 0};
    struct error why = {0};

    TRY(keyd_identify(admitting->source->bundle.keyd, &identity, err));
    set.epoch = identity.policy_epoch;
    memcpy(set.digest, identity.policy_digest, sizeof set.digest);
    TRY(run_row_admission(admitting->source->bundle.pg, &admitting->run.run, &set, err));
    wanted.earlier_epoch = set.epoch;
    memcpy(wanted.earlier_policies, set.digest, sizeof wanted.earlier_policies);
    if (sign(admitting, &wanted, &why).ok) return SUCCESS;
    if (why.kind != ERROR_DENIED && why.kind != ERROR_INVALID && why.kind != ERROR_CONFLICT)
        return failure(err, why.kind, "%s", why.message);
    return admit_refuse(admitting, "sijil-keyd signs no admission: %.200s", why.message);
}

/* ---- the transaction ---- */

struct admission_change {
    struct run_admit admit;
    struct admit_pushes *pushes;
    struct run_lineage lineage;
};

static void add_lineage(struct run_lineage *lineage, const char *role, const char *name, const char *repository,
                        const char *digest)
{
    const size_t at = lineage->count++;

    lineage->roles[at] = bytes_of_text(role);
    lineage->names[at] = bytes_of_text(name);
    lineage->repositories[at] = bytes_of_text(repository);
    lineage->digests[at] = bytes_of_text(digest);
}

static void add_inputs(const json_t *spec, struct run_lineage *lineage)
{
    const struct run_artifacts artifacts = run_spec_artifacts(spec);

    for (size_t i = 0; i < artifacts.count; i++) {
        const json_t *one = artifacts.each[i].json;
        add_lineage(lineage, artifacts.each[i].role, artifacts.each[i].name, json_text_of(one, "repository"),
                    json_text_of(one, "digest"));
    }
}

static void fill_lineage(const struct admitting *admitting, struct run_lineage *lineage)
{
    add_inputs(run_member(admitting->papers->chain.order, "spec"), lineage);
    for (size_t i = 0; i < admitting->makes.count; i++)
        for (size_t j = 0; j < admitting->held.count && admitting->makes.each[i].is_output; j++)
            if (strcmp(admitting->held.each[j].name, admitting->makes.each[i].name) == 0)
                add_lineage(lineage, "output", admitting->held.each[j].name, admitting->makes.each[i].repository,
                            admitting->held.each[j].digest);
}

/* The run has uploaded them, and nobody could pull them until now. */
static struct result show_blobs(const struct permit *permit, const struct manifest_push *push, struct pg *pg, struct error *err)
{
    const struct held_links links = {&push->where, &push->where, push->manifest};

    return held_blobs_link(permit, pg, &links, err);
}

/* Everything but the state of the run, and its envelope. */
static struct result store_rest(const struct permit *permit, const struct run_admit *admit, struct pg *pg, struct error *err)
{
    const struct admission_change *self = (const struct admission_change *)(const void *)admit; /* its first member */

    TRY(run_rows_lineage(pg, &admit->run, &self->lineage, err));
    TRY(run_log_was_kept(pg, &admit->run, err));
    for (size_t i = 0; i < self->pushes->link_count; i++) TRY(held_blobs_link(permit, pg, &self->pushes->links[i], err));
    for (size_t i = 0; i < self->pushes->count; i++) TRY(show_blobs(permit, &self->pushes->each[i], pg, err));
    for (size_t i = 0; i < self->pushes->count; i++) TRY(manifest_admit(permit, pg, &self->pushes->each[i], err));
    return SUCCESS;
}

/*
 * A manifest without one of its blobs never gets it. Anything else may be better next time: what the database itself refuses is a mistake
 * of the program or of the schema, and says nothing of what the run has made.
 */
static bool is_for_ever(const struct record *record)
{
    const struct error *why = &record->error;
    const bool is_of_database = strncmp(why->message, PG_STATEMENT_FAILED, strlen(PG_STATEMENT_FAILED)) == 0;

    return record->status == RECORD_REFUSED && !is_of_database && (why->kind == ERROR_NOT_FOUND || why->kind == ERROR_INVALID);
}

static struct result take_refusal(struct admitting *admitting, const struct record *record, struct error *err)
{
    const struct error *why = &record->error;

    if (is_for_ever(record)) return admit_refuse(admitting, "what it made can't be stored: %.200s", why->message);
    return failure(err, record->status == RECORD_REFUSED ? why->kind : ERROR_UNAVAILABLE, "%s", why->message);
}

static struct result submit(struct admitting *admitting, struct admission_change *change, const char *digest, struct error *err)
{
    struct record record = {.under = admitting->permit, .outcome = OUTCOME_COMPLETED, .change = &change->admit.change};

    (void)snprintf(record.note, sizeof record.note, "%s", digest);
    sequencer_submit_and_wait(admitting->source->bundle.sequencer, &record);
    const struct result result = record.status == RECORD_DONE ? SUCCESS : take_refusal(admitting, &record, err);
    record_done(&record);
    return result;
}

static struct result store(struct admitting *admitting, struct error *err)
{
    struct admission_change change = {.pushes = NULL};
    struct run_signed stored = {.principal = "keyd", .envelope = buffer_bytes(&admitting->admission)};
    OWNED(run_envelope) *admission = NULL;
    OWNED(admit_pushes) *pushes = NULL;

    TRY(admit_prepare(admitting, &pushes, err));
    if (admit_is_refused(admitting)) return SUCCESS;
    TRY(run_envelope_read(buffer_bytes(&admitting->admission), RUN_ADMISSION, &admission, err));
    run_digest_bytes(admission, stored.digest);
    run_admit_prepare(&admitting->run.where, &admitting->run.run, &stored, &change.admit);
    change.admit.store = store_rest;
    change.pushes = pushes;
    fill_lineage(admitting, &change.lineage);
    return submit(admitting, &change, admission->digest, err);
}

/* ---- */

static struct result decide(struct admitting *admitting, struct error *err)
{
    TRY(read_papers(admitting, err));
    TRY(admit_read_held(admitting, admitting->papers->chain.result, &admitting->held, err));
    if (!admit_is_refused(admitting)) TRY(admit_decide(admitting, err));
    if (!admit_is_refused(admitting)) TRY(check_nodes(admitting, err));
    if (!admit_is_refused(admitting)) TRY(ask_keyd(admitting, err));
    return SUCCESS;
}

static struct result admit(struct admitting *admitting, struct error *err)
{
    const struct action_pair pair = {ACTION_RUN_ADMIT, admitting->run.where};

    TRY(permit_for_job(admitting->source->bundle.sequencer, &pair, &admitting->permit, err));
    TRY(decide(admitting, err));
    if (!admit_is_refused(admitting)) TRY(store(admitting, err));
    if (!admit_is_refused(admitting)) return SUCCESS;
    return run_quarantine(admitting->source->bundle.sequencer, &admitting->run.where, &admitting->run.run, admitting->reason,
                          err);
}

struct result run_admit_next(const struct run_admit_source *source, const char *instance, bool *found_out, struct error *err)
{
    OWNED_ADMITTING admitting = {.source = source, .admission = BUFFER(KEYD_RUN_ENVELOPE_MAX)};
    bool is_found = false;

    *found_out = false;
    TRY(run_row_finishing(source->bundle.pg, instance, &admitting.run, &is_found, err));
    *found_out = is_found;
    if (!is_found) return SUCCESS;
    const struct result admitted = admit(&admitting, err);
    return admitted.ok || err->kind != ERROR_CONFLICT ? admitted
                                                      : SUCCESS; /* another gateway was faster, or its runner was withdrawn */
}
