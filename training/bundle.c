#include "training/bundle.h"

#include <string.h>

#include "audit/query.h"
#include "base/clock.h"
#include "base/text.h"
#include "policy/decider/set_store.h"
#include "policy/set.h"
#include "training/bundle_priv.h"
#include "training/format/bundle.h"

#define ENTRY_MAX    (128 * 1024) /* bytes of an entry, or of a proof */
#define DECISION_MAX (512 * 1024) /* bytes of an entry with its facts */

struct maker {
    const struct permit *permit;
    const struct run_bundle_source *source;
    const struct run_bundle_query *query;
    struct run_papers *papers;
    struct key_documents documents;
    json_t *bundle;
};

static void maker_done(struct maker *maker)
{
    key_documents_done(&maker->documents);
    run_papers_free(maker->papers);
    json_decref(maker->bundle);
}
#define OWNED_MAKER __attribute__((cleanup(maker_done))) struct maker

/* ---- envelopes ---- */

static struct result read_envelopes(struct maker *maker, struct error *err)
{
    const struct run_papers_query *papers = &maker->query->papers;

    TRY(run_papers_read(maker->permit, maker->source->pg, papers, &maker->papers, err));
    if (maker->papers->chain.order != NULL || papers->last < RUN_ORDER) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "the run has no order yet, so there is nothing to verify");
}

static struct result write_peers(struct maker *maker, struct error *err)
{
    const struct run_papers *papers = maker->papers;
    json_t *peers = json_array();

    if (json_object_set_new(maker->bundle, "peers", peers) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a bundle");
    for (size_t i = 0; i < papers->peer_count; i++)
        if (json_array_append_new(peers, json_pack("{s:s, s:s, s:s}", "lease", papers->leases_of[i].text, "certificate",
                                                   papers->certificates_of[i].text, "result", papers->results_of[i].text)) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for a bundle");
    return SUCCESS;
}

static struct result write_envelopes(struct maker *maker, struct error *err)
{
    json_t *approvals = json_array();

    if (json_object_set_new(maker->bundle, "approvals", approvals) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a bundle");
    for (size_t i = 0; i < maker->papers->approval_count; i++)
        if (json_array_append_new(approvals, json_string(maker->papers->approvals[i].text)) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for a bundle");
    for (enum run_type type = 0; type < RUN_TYPES; type++)
        if (maker->papers->each[type].text != NULL)
            TRY(bundle_set_text(maker->bundle, run_type_name(type), bytes_of_text(maker->papers->each[type].text), err));
    return maker->papers->peer_count == 0 ? SUCCESS : write_peers(maker, err);
}

/* ---- the order's event ---- */

static uint64_t event_of(const struct maker *maker)
{
    const struct run_envelope *order = maker->papers->chain.order;

    return order == NULL ? maker->query->event : (uint64_t)run_integer(order, "event.number");
}

static struct result prove_event(struct maker *maker, const struct signed_checkpoint *checkpoint, struct error *err)
{
    struct buffer OWNED_BUFFER entry = BUFFER(ENTRY_MAX), proof = BUFFER(ENTRY_MAX);
    json_t *event = json_object();

    if (json_object_set_new(maker->bundle, "event", event) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a bundle");
    TRY(audit_prove_run(maker->permit, maker->source->pg,
                        &(struct run_entry){maker->query->papers.action, event_of(maker), checkpoint},
                        &(struct proven_entry){&entry, &proof}, err));
    TRY(bundle_set_text(event, "entry", buffer_bytes(&entry), err));
    return bundle_set_text(event, "proof", buffer_bytes(&proof), err);
}

/* The last entry that the checkpoint of the bundle must cover: the order names one that another gateway may have had signed a moment ago. */
static uint64_t last_entry(const struct maker *maker)
{
    const struct run_envelope *order = maker->papers->chain.order;
    const uint64_t event = event_of(maker), size = order == NULL ? 0 : (uint64_t)run_integer(order, "event.size");

    return size > event + 1 ? size - 1 : event;
}

static struct result write_event(struct maker *maker, struct error *err)
{
    struct signed_checkpoint checkpoint;

    if (maker->query->checkpoint != NULL) return prove_event(maker, maker->query->checkpoint, err);
    TRY(bundle_checkpoint(maker->source, maker->query->published, last_entry(maker), &checkpoint, err));
    return prove_event(maker, &checkpoint, err);
}

/* Whoever gets the bundle may know another key of the log than the one that has signed. */
static struct result write_log_keys(struct maker *maker, struct error *err)
{
    struct buffer OWNED_BUFFER keys = BUFFER(LOG_KEYS_TEXT_MAX);
    struct keyd_log_keys state;

    if (sequencer_log_keys(maker->source->sequencer)->count == 1) return SUCCESS;
    TRY(keyd_log_keys(maker->source->keyd, &keys, &state, err));
    return bundle_set_text(maker->bundle, "log_keys", buffer_bytes(&keys), err);
}

/* ---- keys ---- */

static struct result add_key(struct maker *maker, const struct key_use *use, struct error *err)
{
    return key_documents_add(maker->permit, maker->source, maker->query->papers.action, use, &maker->documents, err);
}

static struct result add_person(struct maker *maker, const struct run_envelope *signed_by_it, int64_t at_ms, struct error *err)
{
    const struct key_use use = {DOCUMENT_SIGNING_KEY, signed_by_it->dsse->signatures[0].keyid,
                                run_text(maker->papers->chain.request, "project"), at_ms};

    return add_key(maker, &use, err);
}

static struct result add_runner(struct maker *maker, const struct run_envelope *lease, struct error *err)
{
    const struct key_use use = {DOCUMENT_RUNNER, lease == NULL ? maker->query->runner : run_text(lease, "runner.key"),
                                run_text(maker->papers->chain.request, "project"),
                                lease == NULL ? clock_wall_ms() : run_time(lease, "not_before")};

    return use.name == NULL ? SUCCESS : add_key(maker, &use, err);
}

/* Of a robot or a person with a token there is no document. */
static struct result add_requester(struct maker *maker, int64_t at_ms, struct error *err)
{
    const struct run_bundle_source *source = maker->source;
    const struct run_envelope *request = maker->papers->chain.request;
    const struct document_source documents = {source->pg, source->keyd, source->sequencer};

    if (run_member(request, "claims") == NULL) return add_person(maker, request, at_ms, err);
    if (!run_is_of_rule(request)) return SUCCESS;
    const struct rule_use of_then = {run_text(request, "claims.subject"), event_of(maker)};
    const struct rule_use of_day = {of_then.subject, UINT64_MAX};
    TRY(document_view_follow(source->documents, DOCUMENT_TRUST_RULE, &documents, err));
    TRY(key_documents_add_rule(maker->permit, source, maker->query->papers.action, &of_then, &maker->documents, err));
    if (!maker->query->is_of_day) return SUCCESS;
    return key_documents_add_rule(maker->permit, source, maker->query->papers.action, &of_day, &maker->documents, err);
}

static struct result write_keys(struct maker *maker, struct error *err)
{
    const struct run_bundle_source *source = maker->source;
    const struct document_source documents = {source->pg, source->keyd, source->sequencer};
    const struct run_envelope *order = maker->papers->chain.order;
    const int64_t at_ms = order == NULL ? clock_wall_ms() : run_time(order, "not_before");

    TRY(document_view_follow(source->documents, DOCUMENT_SIGNING_KEY, &documents, err));
    TRY(document_view_follow(source->documents, DOCUMENT_RUNNER, &documents, err));
    TRY(add_requester(maker, at_ms, err));
    for (size_t i = 0; i < maker->papers->approval_count; i++)
        TRY(add_person(maker, maker->papers->approvals[i].read, at_ms, err));
    TRY(add_runner(maker, maker->papers->chain.lease, err));
    for (size_t i = 0; i < maker->papers->peer_count; i++) TRY(add_runner(maker, maker->papers->peers[i].lease, err));
    TRY(key_documents_add_signers(maker->permit, source, maker->query->papers.action, &maker->documents, err));
    return key_documents_write(maker->permit, source, maker->query->papers.action, &maker->documents, maker->bundle, err);
}

/* ---- policies ---- */

struct wanted_set {
    uint64_t epoch;
    const char *digest; /* hex */
};

static struct result append_set(const struct policy_set *set, json_t *list, struct error *err)
{
    const struct bytes text = policy_set_envelope(set);

    if (json_array_append_new(list, json_stringn((const char *)text.data, text.length)) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a policy set");
}

/* The newest event with such a set that is stored. */
static struct result find_set(const struct maker *maker, const struct wanted_set *wanted, json_t *list, struct error *err)
{
    uint8_t digest[DOCUMENT_DIGEST_SIZE];
    const struct policy_set_row row = {wanted->epoch, digest};
    OWNED(pg_rows) *rows = NULL;

    if (!text_from_hex(bytes_of_text(wanted->digest), digest, sizeof digest))
        return failure(err, ERROR_CORRUPT, "the order names no policy set");
    TRY(policy_set_find(maker->source->pg, &row, 0, &rows, err));
    if (pg_rows_count(rows) == 0)
        return failure(err, ERROR_CORRUPT, "the policy set of epoch %llu is not stored any more",
                       (unsigned long long)wanted->epoch);
    const struct bytes text = pg_bytes(rows, 0, 1);
    if (json_array_append_new(list, json_stringn((const char *)text.data, text.length)) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a policy set");
}

static struct result add_set(const struct maker *maker, const struct wanted_set *wanted, json_t *list, struct error *err)
{
    OWNED(policy_set) *newest = decider_policy_set(maker->source->decider);

    if (newest == NULL || strcmp(policy_set_digest(newest) + strlen("sha256:"), wanted->digest) != 0)
        return find_set(maker, wanted, list, err);
    return append_set(newest, list, err);
}

static struct result write_decision(struct maker *maker, struct error *err)
{
    const struct run_entry of = {maker->query->papers.action, event_of(maker), NULL};
    struct buffer OWNED_BUFFER line = BUFFER(DECISION_MAX);
    json_t *list = json_array();
    bool is_whole = false;

    OWNED_JSON owned = list;
    TRY(audit_decision_of_run(maker->permit, maker->source->pg, &of, &line, &is_whole, err));
    if (!is_whole) return SUCCESS; /* the report says that the bundle has no decisions */
    if (json_array_append_new(list, json_stringn(buffer_text(&line), line.length)) != 0 ||
        json_object_set(maker->bundle, "decisions", list) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a decision");
    return bundle_restrictions_named(maker->source, run_text(maker->papers->chain.request, "project"), buffer_text(&line),
                                     maker->bundle, err);
}

/* An admission names the set of its own day: with it the duties that counted then can be checked, too. */
static struct result add_set_of_admission(const struct maker *maker, const struct wanted_set *ordered, json_t *list,
                                          struct error *err)
{
    const struct run_envelope *admission = maker->papers->chain.admission;
    struct wanted_set wanted = {.epoch = 0};

    if (admission == NULL) return SUCCESS;
    wanted.digest = run_text(admission, "predicate.policy.digest.sha256");
    const char *epoch = strrchr(run_text(admission, "predicate.policy.uri"), ':');
    if (epoch == NULL || !text_to_u64(bytes_of_text(epoch + 1), UINT64_MAX, &wanted.epoch))
        return failure(err, ERROR_CORRUPT, "the admission names no policy set");
    return strcmp(wanted.digest, ordered->digest) == 0 ? SUCCESS : add_set(maker, &wanted, list, err);
}

/* If another one is in force by now, sijil-keyd says so, and is asked again. */
static struct result add_set_of_day(const struct maker *maker, json_t *list, struct error *err)
{
    OWNED(policy_set) *newest = decider_policy_set(maker->source->decider);

    if (newest == NULL) return failure(err, ERROR_UNAVAILABLE, "this gateway does not know the policies");
    return append_set(newest, list, err);
}

static struct result write_policies(struct maker *maker, struct error *err)
{
    const struct run_envelope *order = maker->papers->chain.order;
    json_t *list = json_array();

    if (json_object_set_new(maker->bundle, "policy_sets", list) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for policy sets");
    if (maker->query->is_of_day) {
        TRY(bundle_restrictions_of_day(maker->source, run_member(order, "spec"), maker->bundle, err));
        return add_set_of_day(maker, list, err);
    }
    const struct wanted_set wanted = {(uint64_t)run_integer(order, "policy.epoch"),
                                      run_text(order, "policy.digest") + strlen("sha256:")};
    TRY(add_set(maker, &wanted, list, err));
    TRY(add_set_of_admission(maker, &wanted, list, err));
    return write_decision(maker, err);
}

/* ---- */

static struct result make(struct maker *maker, struct error *err)
{
    maker->bundle = json_pack("{s:s}", "schema", "sijil.run-bundle/v1");
    if (maker->bundle == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a bundle");
    TRY(read_envelopes(maker, err));
    TRY(write_envelopes(maker, err));
    TRY(write_log_keys(maker, err));
    TRY(write_event(maker, err));
    TRY(write_keys(maker, err));
    return maker->query->is_whole || maker->query->is_of_day ? write_policies(maker, err) : SUCCESS;
}

struct result run_bundle_make(const struct permit *permit, const struct run_bundle_source *source,
                              const struct run_bundle_query *query, struct buffer *text, struct error *err)
{
    OWNED_MAKER maker = {.permit = permit, .source = source, .query = query, .documents.published = query->published};

    TRY(make(&maker, err));
    return json_write_canonical(text, maker.bundle, err);
}
