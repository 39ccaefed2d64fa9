#include "embedded/recovery.h"

#include <stdio.h>
#include <string.h>

#include "audit/cosigned_jobs.h"
#include "audit/format/succession_check.h"
#include "audit/job_permit.h"
#include "audit/succession.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gateway/background/witness_feed.h"
#include "gateway/tables.h"

/* ---- the plan ---- */

struct planning {
    const struct recovery_options *options;
    struct keyd_client *keyd;
    struct keyd_identity identity;
    struct log_keys log_keys; /* of the log that ends */
    struct audit_remains remains;
    struct buffer note;
};

/* Policies of witnesses ask for a checkpoint that their quorum has cosigned. */
static struct result find_cosigned(struct planning *planning, struct error *err)
{
    const struct witness_feed_options options = {planning->options->settings, planning->keyd, &planning->identity};
    const struct pg_table *const tables[] = {&cosigned_table, NULL};
    OWNED(witness_feed) *feed = NULL;
    OWNED(pg) *pg = NULL;

    TRY(witness_feed_new(&options, &feed, err));
    if (feed == NULL) return keyd_last_checkpoint(planning->keyd, &planning->note, err);
    TRY(pg_open(planning->options->settings->database, tables, &pg, err));
    struct cosigned *cosigned = memory_zeroed(1, sizeof *cosigned); /* too large for the stack */
    if (cosigned == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a cosigned checkpoint");
    struct result found = cosigned_newest(pg, &planning->log_keys, witness_feed_policy(feed), cosigned, err);
    if (found.ok) found = buffer_add_text(&planning->note, cosigned->checkpoint.note, err);
    else if (err->kind == ERROR_NOT_FOUND)
        (void)failure(
            err, ERROR_NOT_FOUND,
            "the database has no cosigned checkpoint: give the newest one that a witness or an auditor has (--recover-checkpoint)");
    free(cosigned);
    return found;
}

static struct result take_checkpoint(struct planning *planning, struct error *err)
{
    const struct bytes given = planning->options->checkpoint;

    return given.length > 0 ? buffer_add(&planning->note, given.data, given.length, err) : find_cosigned(planning, err);
}

/* A pin of an event that is left stays; one of an event that is lost goes back to the newest that the database knows. */
static void choose_pin(const struct document_pin *pinned, const struct document_pin *stored, bool is_left,
                       struct document_pin *pin_out)
{
    const bool is_same = pinned->epoch == stored->epoch && memcmp(pinned->digest, stored->digest, sizeof pinned->digest) == 0;

    *pin_out = is_left || is_same ? *pinned : *stored;
}

static struct result choose_pins(struct planning *planning, struct succession *succession, struct error *err)
{
    const struct pg_table *const tables[] = {&audit_succession_table, NULL};
    struct document_pin stored[DOCUMENT_KINDS_MAX];
    struct keyd_documents pinned;
    OWNED(pg) *pg = NULL;

    TRY(pg_open(planning->options->settings->database, tables, &pg, err));
    TRY(audit_stored_pins(pg, stored, err));
    TRY(keyd_ask_documents(planning->keyd, &pinned, err));
    for (size_t i = 0; i < DOCUMENT_KINDS_MAX; i++) /* the epoch of a policy set is no number of an event */
        choose_pin(&pinned.pins[i], &stored[i], i > 0 && pinned.pins[i].epoch < planning->remains.size, &succession->pins[i]);
    if (pinned.pins[0].epoch < stored[0].epoch)
        succession->pins[0] = pinned.pins[0]; /* a set that was stored, and never pinned */
    return SUCCESS;
}

static struct result fill(struct planning *planning, struct succession *succession, struct error *err)
{
    const struct keyd_identity *identity = &planning->identity;
    const uint64_t number = succession_number(planning->log_keys.keys[0].name, identity->origin);
    struct root_terms terms;

    succession->made_ms = (uint64_t)clock_wall_ms();
    (void)snprintf(succession->registry, sizeof succession->registry, "%.127s", identity->origin);
    (void)snprintf(succession->reason, sizeof succession->reason, "%.200s", planning->options->reason);
    (void)snprintf(succession->before.origin, sizeof succession->before.origin, "%.127s", planning->log_keys.keys[0].name);
    succession->before.size = identity->log_size;
    memcpy(succession->before.root.bytes, identity->log_root, sizeof identity->log_root);
    TRY(keyd_root_terms(planning->keyd, &terms, err));
    succession->officers = terms.root > planning->options->officers ? terms.root : planning->options->officers;
    TRY(succession_origin(identity->origin, number + 1, succession->after.origin, err));
    TRY(note_key_make(succession->after.origin, NOTE_ED25519, log_keys_newest(&planning->log_keys)->public_key, &succession->key,
                      err));
    succession->after.size = planning->remains.size;
    succession->after.root = planning->remains.root;
    TRY(choose_pins(planning, succession, err));
    TRY(take_checkpoint(planning, err));
    succession->checkpoint = buffer_bytes(&planning->note);
    return SUCCESS;
}

/* A log that has everything needs no new origin. */
static struct result check_lost(const struct planning *planning, struct error *err)
{
    const char *stored = planning->remains.log.name;

    if (stored[0] != '\0' && strcmp(stored, planning->log_keys.keys[0].name) != 0)
        return failure(err, ERROR_CONFLICT,
                       "the database has the log \"%.60s\", and sijil-keyd signs \"%.60s\": end the first recovery", stored,
                       planning->log_keys.keys[0].name);
    if (!planning->remains.has_all) return SUCCESS;
    return failure(err, ERROR_CONFLICT,
                   "nothing is lost: the database has all %llu events that sijil-keyd has signed. Start the gateways",
                   (unsigned long long)planning->identity.log_size);
}

/* The new key is told now, so that witnesses can accept the new log before it is signed. */
static struct result tell(const struct planning *planning, const struct succession *succession, struct error *err)
{
    char signed_size[24], left[24], proven[24], last[CLOCK_TEXT_SIZE];
    struct buffer OWNED_BUFFER vkey = BUFFER(512);

    TRY(note_key_write(&succession->key, &vkey, err));
    (void)snprintf(signed_size, sizeof signed_size, "%llu", (unsigned long long)succession->before.size);
    (void)snprintf(left, sizeof left, "%llu", (unsigned long long)succession->after.size);
    (void)snprintf(proven, sizeof proven, "%llu", (unsigned long long)planning->remains.proven);
    clock_format(planning->remains.last_time_ms, last);
    log_line(LOG_INFO, "a plan for a new origin of the log", "ends", succession->before.origin, "signed", signed_size, "left",
             left, "proven by a checkpoint", proven, "last entry", last, "begins", succession->after.origin, "new key",
             buffer_text(&vkey), NULL);
    return SUCCESS;
}

static struct result read_keys(struct planning *planning, struct buffer *text, struct error *err)
{
    struct keyd_log_keys state;

    TRY(keyd_log_keys(planning->keyd, text, &state, err));
    return log_keys_read(buffer_bytes(text), &planning->log_keys, err);
}

static struct result plan(struct planning *planning, struct buffer *statement, struct buffer *keys, struct error *err)
{
    const struct settings *settings = planning->options->settings;
    struct succession succession = {.made_ms = 0};

    TRY(keyd_client_new(settings->keyd_socket, (unsigned)settings->keyd_timeout, &planning->keyd, err));
    TRY(keyd_identify(planning->keyd, &planning->identity, err));
    TRY(read_keys(planning, keys, err));
    TRY(audit_remains_read(settings->database, &planning->log_keys, &planning->identity, &planning->remains, err));
    TRY(check_lost(planning, err));
    TRY(fill(planning, &succession, err));
    TRY(succession_write(&succession, statement, err));
    return tell(planning, &succession, err);
}

struct result recovery_plan(const struct recovery_options *options, struct buffer *statement, struct buffer *keys,
                            struct error *err)
{
    struct planning planning = {.options = options, .note = BUFFER(KEYD_COSIGNED_MAX)};
    const struct result planned = plan(&planning, statement, keys, err);

    buffer_done(&planning.note);
    keyd_client_free(planning.keyd);
    return planned;
}

/* ---- the recovery ---- */

struct recovering {
    const struct recovery_options *options;
    struct keyd_client *keyd;
    struct sequencer *sequencer;
    struct succession succession;
    struct bytes statement;
};

static void add_signatures(const struct succession_plans *plans, struct keyd_recovery *recovery)
{
    for (size_t i = 0; i < plans->count; i++)
        for (size_t k = 0; k < plans->each[i]->signature_count; k++) {
            const struct dsse_signature *signature = &plans->each[i]->signatures[k];
            if (signature->length == 0 || recovery->signature_count == KEYD_STATEMENT_SIGNATURES) continue;
            recovery->signatures[recovery->signature_count++] = (struct bytes){signature->bytes, signature->length};
        }
}

static struct result ask_keyd(struct recovering *recovering, const struct succession_plans *plans, struct error *err)
{
    struct keyd_recovery recovery = {.statement = recovering->statement};
    OWNED(witness_feed) *feed = NULL;
    struct keyd_identity identity;
    struct note_key key;

    TRY(keyd_identify(recovering->keyd, &identity, err));
    TRY(note_key_read(bytes_of_text(identity.log_vkey), &key, err));
    if (strcmp(key.name, recovering->succession.after.origin) == 0 && identity.log_size > recovering->succession.after.size)
        return SUCCESS; /* an earlier call has come so far. Before, sijil-keyd says whether it has taken this statement */
    const struct witness_feed_options options = {recovering->options->settings, recovering->keyd, &identity};
    TRY(witness_feed_new(&options, &feed, err));
    if (feed != NULL) recovery.policy = witness_feed_text(feed);
    add_signatures(plans, &recovery);
    return keyd_recover(recovering->keyd, &recovery, err);
}

static struct result rename_log(struct recovering *recovering, struct error *err)
{
    const struct pg_table *const tables[] = {&audit_succession_owner_table, NULL};
    OWNED(pg) *owner = NULL;

    TRY(pg_open(recovering->options->database_owner, tables, &owner, err));
    return audit_succeed(owner, &recovering->succession, recovering->statement, err);
}

/* The program that runs now has recorded nothing: if the log has grown behind its beginning, an earlier call has made the entry. */
static struct result record(struct recovering *recovering, struct error *err)
{
    struct action_pair pair = {.action = ACTION_LOG_SUCCEED, .resource.kind = RESOURCE_SYSTEM};
    struct signed_checkpoint newest;
    struct error none; /* of an empty log */
    OWNED(permit) *permit = NULL;

    if (sequencer_checkpoint(recovering->sequencer, &newest, &none).ok && newest.size > recovering->succession.after.size)
        return SUCCESS;
    TRY(succession_detail(&recovering->succession, recovering->statement, pair.resource.detail, err));
    TRY(permit_for_job(recovering->sequencer, &pair, &permit, err));
    return sequencer_await_signed(recovering->sequencer, recovering->succession.after.size, err);
}

static struct result open_sequencer(struct recovering *recovering, struct error *err)
{
    const struct settings *settings = recovering->options->settings;
    struct sequencer_options options = {.conninfo = settings->database,
                                        .tables = gateway_tables,
                                        .keyd = recovering->keyd,
                                        .succeeds = true,
                                        .deadline_ms = (unsigned)settings->record_timeout};
    struct keyd_identity identity;

    TRY(keyd_identify(recovering->keyd, &identity, err));
    const struct witness_feed_options witnesses = {settings, recovering->keyd, &identity};
    TRY(witness_feed_ask_once(&witnesses, err));
    memcpy(options.origin, identity.origin, sizeof options.origin);
    (void)snprintf(options.instance, sizeof options.instance, "%.55s.recover", settings->instance);
    return sequencer_start(&options, &recovering->sequencer, err);
}

static struct result run(struct recovering *recovering, const struct succession_plans *plans, enum recovery_part part,
                         struct error *err)
{
    const struct settings *settings = recovering->options->settings;

    recovering->statement = buffer_bytes(&plans->each[0]->payload);
    TRY(succession_read(recovering->statement, &recovering->succession, err));
    if (part == RECOVERY_RENAME) return rename_log(recovering, err);
    TRY(keyd_client_new(settings->keyd_socket, (unsigned)settings->keyd_timeout, &recovering->keyd, err));
    if (part == RECOVERY_TAKE) return ask_keyd(recovering, plans, err);
    TRY(open_sequencer(recovering, err));
    return record(recovering, err);
}

struct result recovery_run_part(const struct recovery_options *options, enum recovery_part part, struct error *err)
{
    struct recovering recovering = {.options = options};
    struct succession_plans plans = {.count = 0};
    struct result done = succession_plans_read(options->signed_plans, &plans, err);

    if (done.ok) done = run(&recovering, &plans, part, err);
    sequencer_free(recovering.sequencer);
    keyd_client_free(recovering.keyd);
    succession_plans_done(&plans);
    return done;
}

struct result recovery_run(const struct recovery_options *options, struct error *err)
{
    TRY(recovery_run_part(options, RECOVERY_TAKE, err));
    TRY(recovery_run_part(options, RECOVERY_RENAME, err));
    return recovery_run_part(options, RECOVERY_RECORD, err);
}
