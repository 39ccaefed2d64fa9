/* POST /api/v1/runner/runs/{reference}/result: the result of a leased node, with the manifests of what it made (docs/runs.md, "Results"). */
#include <stdio.h>
#include <string.h>

#include "gateway/api/run_priv.h"
#include "gateway/api/runner_work_priv.h"
#include "gateway/pipeline/resolve.h"
#include "training/content.h"
#include "training/format/certificate.h"
#include "training/label_stated.h"
#include "training/result.h"

SCHEMA(
    run_result, "what a runner says of an ended lease", HAS_NUMBER("attempt", REQUIRED, 1, 100, "as in the lease"),
    HAS_NUMBER("node", REQUIRED, 0, 255, "as in the lease"),
    HAS_TEXT("certificate", REQUIRED, FORM_FREE, 1, RUN_CERTIFICATE_MAX,
             "the envelope of the start: it certifies the key of the result"),
    HAS_TEXT("result", REQUIRED, FORM_FREE, 1, 0, "the envelope (DSSE), signed with the certified key of the attempt"),
    HAS_ANY(
        "manifests", REQUIRED,
        "an object: the OCI manifest, as a text, of each subject of the result, and of its metrics, by name. Their blobs are uploaded already"))

SCHEMA(run_taken, "a result was taken",
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 32, "of the run (docs/runs.md): finishing, if it waits for its admission"))

/* One result. */
struct taking {
    struct run_holder holder;
    struct run_held held;
    struct bytes text;
    struct bytes certified;
    struct run_envelope *certificate, *result; /* owned */
    struct run_papers *papers;                 /* owned */
    struct run_makes makes;
    struct run_floor *floor; /* owned; NULL: of a late one */
    struct held_manifests manifests;
    bool is_late;     /* only log and metrics are kept */
    bool lacks_blobs; /* of a late one: its lease ended before all was uploaded */
};

static void taking_done(struct taking *taking)
{
    held_manifests_done(&taking->manifests);
    run_envelope_free(taking->certificate);
    run_envelope_free(taking->result);
    run_papers_free(taking->papers);
    run_floor_free(taking->floor);
}
#define OWNED_TAKING __attribute__((cleanup(taking_done))) struct taking

/* ---- target ---- */

/* The body comes after the first decision, which is about the newest lease that the runner has had of this run. */
static struct result find_holder(struct request *request, struct lookup *lookup, struct run_holder *holder_out, struct error *err)
{
    struct uuid run;

    if (request->body.length > 0) return runner_read_holder(request, holder_out, err);
    TRY(api_id(request, "run", &run, err));
    return run_held_newest(lookup, &run, request->runner->name, holder_out, err);
}

struct result target_run_result(struct request *request, struct lookup *lookup, struct error *err)
{
    struct run_holder holder;
    struct run_held held;
    struct error why = {0};

    if (api_asks_for_credential(request, ACTION_RUN_FINISH)) return SUCCESS;
    if (find_holder(request, lookup, &holder, &why).ok && run_held_find(lookup, &holder, &held, &why).ok) {
        runner_pair_of_lease(request, ACTION_RUN_FINISH, &holder, &held);
        return SUCCESS;
    }
    if (why.kind != ERROR_NOT_FOUND) return failure(err, why.kind, "%s", why.message);
    response_unknown(request);
    return SUCCESS;
}

/* ---- the envelope ---- */

static struct result read_result(struct request *request, struct taking *taking, struct error *err)
{
    char key[ECDSA_THUMBPRINT_SIZE];
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    taking->certified = bytes_of_text(json_text_of(body, "certificate"));
    taking->text = bytes_of_text(json_text_of(body, "result"));
    TRY(run_envelope_read(taking->text, RUN_RESULT, &taking->result, err));
    TRY(run_envelope_read(taking->certified, RUN_CERTIFICATE, &taking->certificate, err));
    certificate_thumbprint(taking->certificate, CERTIFICATE_RUNNER, key);
    if (strcmp(key, request->runner->name) != 0)
        return failure(err, ERROR_DENIED, "certificate: another runner's key has signed it");
    TRY(certificate_check_signer(taking->certificate, CERTIFICATE_RUNNER, taking->certificate, err));
    return certificate_check_result(taking->certificate, taking->result, err);
}

/* That of the start. A row is not believed. */
static struct result check_known(const struct run_chain *below, struct error *err)
{
    struct error why = {0};

    if (below->certificate == NULL || run_chain_check(below, &why).ok) return SUCCESS;
    return failure(err, why.kind == ERROR_NO_MEMORY ? why.kind : ERROR_CORRUPT, "the kept certificate of the attempt: %.200s",
                   why.message);
}

/* The digest of an envelope says nothing of its signature, so the certificate of the start may come signed anew. */
static bool has_known_certificate(const struct taking *taking)
{
    const struct run_envelope *known = taking->papers->chain.certificate;

    return known != NULL && strcmp(known->digest, taking->certificate->digest) == 0;
}

/* Against the envelopes before it. A result that is stored already does not count here. */
static struct result check_chain(struct request *request, struct pg *pg, struct taking *taking, struct error *err)
{
    const struct run_papers_query query = {.action = ACTION_RUN_FINISH,
                                           .run = taking->holder.run,
                                           .last = RUN_CERTIFICATE,
                                           .attempt = taking->holder.attempt,
                                           .node = taking->holder.node};

    TRY(run_papers_read(request->permit, pg, &query, &taking->papers, err));
    struct run_chain chain = taking->papers->chain;
    if (chain.lease == NULL) return failure(err, ERROR_CONFLICT, "the lease is not signed, or is not of the newest attempt");
    TRY(check_known(&chain, err));
    chain.certificate = taking->certificate;
    chain.result = taking->result;
    TRY(run_chain_check(&chain, err));
    if (has_known_certificate(taking)) taking->certified = bytes_of_text(taking->papers->each[RUN_CERTIFICATE].text);
    run_makes_of(chain.order, taking->result, &taking->makes);
    return SUCCESS;
}

/* ---- manifests ---- */

static struct result check_sent(struct request *request, struct pg *pg, struct taking *taking, const struct run_made *made,
                                struct error *err)
{
    const struct held_manifest *added = &taking->manifests.each[taking->manifests.count - 1];
    const struct run_sent sent = {ACTION_RUN_FINISH, &taking->holder, made->name, made->repository, added->manifest};
    struct error why = {0};

    if (run_sent_check(request->permit, pg, &sent, &why).ok) return SUCCESS;
    if (!taking->is_late || why.kind != ERROR_INVALID) return failure(err, why.kind, "%s", why.message);
    taking->lacks_blobs = true;
    return SUCCESS;
}

static struct result add_manifest(struct request *request, struct pg *pg, struct taking *taking, const struct run_made *made,
                                  struct error *err)
{
    const json_t *manifests = json_object_get(request->document, "manifests");
    const char *text = json_text_of(manifests, made->name);
    struct resource where = {.kind = RESOURCE_REPOSITORY};

    if (text == NULL) return failure(err, ERROR_INVALID, "manifests has no text for %.63s", made->name);
    (void)snprintf(where.name, sizeof where.name, "%s", made->repository);
    resolve_name(request, &where);
    TRY(registry_resolve(request->gateway->registry, lookup_of(pg), decider_names_version(request->gateway->decider), &where,
                         err));
    const struct held_text held = {ACTION_RUN_FINISH, made->name, &where, bytes_of_text(text)};
    TRY(held_manifests_add(request->permit, request->gateway->registry, pg, &held, &taking->manifests, err));
    const struct held_manifest *added = &taking->manifests.each[taking->manifests.count - 1];
    TRY(run_made_check(made, added, held.body, err));
    if (!taking->is_late) TRY(run_floor_check(taking->floor, made->name, added->manifest->label, err));
    return check_sent(request, pg, taking, made, err);
}

/* The label that each manifest must state at least. */
static struct result find_floor(struct request *request, struct pg *pg, struct taking *taking, struct error *err)
{
    const struct run_chain *chain = &taking->papers->chain;
    const struct run_floor_query query = {ACTION_RUN_FINISH, chain->order, run_time(chain->lease, "not_before")};

    return run_floor_find(request->permit, pg, request->gateway->decider, &query, &taking->floor, err);
}

static struct result add_manifests(struct request *request, struct pg *pg, struct taking *taking, struct error *err)
{
    const json_t *manifests = json_object_get(request->document, "manifests");

    if (!json_is_object(manifests) || json_object_size(manifests) != taking->makes.count)
        return failure(err, ERROR_INVALID,
                       "manifests is an object with exactly one text for each of the %zu that the result names",
                       taking->makes.count);
    taking->manifests.key = (struct held_key){taking->holder.run, taking->holder.attempt, taking->holder.node};
    for (size_t i = 0; i < taking->makes.count; i++)
        if (!taking->is_late || !taking->makes.each[i].is_output)
            TRY(add_manifest(request, pg, taking, &taking->makes.each[i], err));
    return run_makes_check_amount(taking->papers->chain.order, &taking->makes, &taking->manifests, err);
}

/* ---- storing ---- */

static struct run_signed signed_of(const struct request *request, const struct taking *taking, char signer[PRINCIPAL_KEY_SIZE])
{
    struct run_signed stored = {.principal = signer, .envelope = taking->text};

    principal_key(request->principal, signer);
    run_digest_bytes(taking->result, stored.digest);
    return stored;
}

#define LATE "the attempt had ended before its result came: the result is kept, and does not count"

/* What failed or was cancelled can be looked into, so its log and metrics are kept, too. */
static struct result keep_late(struct request *request, struct pg *pg, struct taking *taking, struct error *err)
{
    char signer[PRINCIPAL_KEY_SIZE];
    const struct run_signed stored = signed_of(request, taking, signer);
    struct run_late late = {&taking->held.where, &taking->holder.run, &stored, &taking->manifests};

    held_manifests_done(&taking->manifests);
    taking->is_late = true;
    TRY(add_manifests(request, pg, taking, err));
    if (taking->lacks_blobs) late.held = NULL; /* then only the envelope is kept */
    TRY(run_result_keep_late(request->permit, request->gateway->sequencer, &late, err));
    return failure(err, ERROR_CONFLICT, LATE);
}

/* Two runners with one key. The second result is kept, as long as there is room, so that people can compare both. */
static struct result take_second(struct request *request, struct pg *pg, struct taking *taking, const struct run_second *second,
                                 struct error *err)
{
    struct error kept = {0};

    (void)keep_late(request, pg, taking, &kept).ok;
    if (kept.kind != ERROR_CONFLICT && kept.kind != ERROR_LIMIT) return failure(err, kept.kind, "%s", kept.message);
    TRY(run_second_result(request->permit, request->gateway->sequencer, pg, second, err));
    return failure(err, ERROR_CONFLICT, RUN_SECOND_REASON ": it is suspended");
}

/* A runner certifies one key for a lease. */
static bool has_other_certificate(const struct taking *taking)
{
    return taking->papers->chain.certificate != NULL && !has_known_certificate(taking);
}

static struct result take_late(struct request *request, struct pg *pg, struct taking *taking, struct error *err)
{
    char signer[PRINCIPAL_KEY_SIZE];
    bool is_second = has_other_certificate(taking);

    principal_key(request->principal, signer);
    const struct run_second second = {&taking->holder, &taking->held, taking->result, taking->certificate, signer};
    if (!is_second) TRY(run_result_is_second(request->permit, pg, &second, &is_second, err));
    return is_second ? take_second(request, pg, taking, &second, err) : keep_late(request, pg, taking, err);
}

/* Of several nodes the first that fails ends the run, so the reason says which one it was. */
static void name_node(const struct taking *taking, struct run_outcome *outcome)
{
    char node[RUNNER_NODE_SIZE], reason[RUN_REASON_SIZE];

    if (outcome->reason[0] == '\0') return;
    runner_name_node(&taking->held, &taking->holder, node);
    (void)snprintf(reason, sizeof reason, "%s%.200s", node, outcome->reason);
    if (node[0] != '\0') memcpy(outcome->reason, reason, sizeof reason);
}

/* *is_late_out: the attempt ended meanwhile, and nothing was stored. */
static struct result finish(struct request *request, struct pg *pg, struct taking *taking, bool *is_late_out, struct error *err)
{
    struct run_outcome outcome = run_outcome_of(taking->result);
    char signer[PRINCIPAL_KEY_SIZE];
    const struct run_signed stored = signed_of(request, taking, signer);
    struct run_step change;
    struct error why = {0};

    name_node(taking, &outcome);
    TRY(find_floor(request, pg, taking, err));
    TRY(add_manifests(request, pg, taking, err));
    run_finish_prepare(&taking->held.where, &taking->holder, &stored, &outcome, &change);
    change.held = &taking->manifests;
    change.certificate = taking->certified;
    *is_late_out = false;
    if (request_record(request, &change.change, &why).ok) return SUCCESS;
    *is_late_out = why.kind == ERROR_CONFLICT;
    return *is_late_out ? SUCCESS : failure(err, why.kind, "%s", why.message);
}

static struct result say(struct request *request, struct pg *pg, const struct taking *taking, struct error *err)
{
    struct run_held now;

    TRY(run_held_find(lookup_of(pg), &taking->holder, &now, err));
    OWNED_JSON value = json_pack("{s:s}", "state", run_state_name(now.state));
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    response_json(request, 200, value);
    return SUCCESS;
}

/* Otherwise a model would be admitted whose program the log never saw running. */
static struct result check_started(const struct taking *taking, struct error *err)
{
    const enum run_state state = taking->held.state;

    if (run_outcome_of(taking->result).state != RUN_STATE_FINISHING || taking->held.has_ended) return SUCCESS;
    if (state != RUN_STATE_ORDERED && state != RUN_STATE_LEASED) return SUCCESS;
    return failure(err, ERROR_CONFLICT,
                   "the program of this attempt was never started, so it can't have succeeded: start it first");
}

static struct result take(struct request *request, struct pg *pg, struct taking *taking, struct error *err)
{
    bool is_late = taking->held.has_ended || run_state_is_end(taking->held.state);

    TRY(check_chain(request, pg, taking, err));
    TRY(check_started(taking, err));
    is_late = is_late || has_other_certificate(taking);
    if (!is_late) TRY(finish(request, pg, taking, &is_late, err));
    return is_late ? take_late(request, pg, taking, err) : say(request, pg, taking, err);
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_TAKING taking = {.result = NULL};
    char kind[16];

    TRY(runner_find_lease(request, pg, &taking.holder, &taking.held, err));
    TRY(read_result(request, &taking, err));
    TRY(request_record(request, NULL, err)); /* the event of the right to finish comes first: only then may the run be read */
    TRY(run_result_find(request->permit, pg, &taking.holder.run, taking.result, kind, err));
    if (strcmp(kind, "late") == 0) return failure(err, ERROR_CONFLICT, LATE);
    return kind[0] != '\0' ? say(request, pg, &taking, err) : take(request, pg, &taking, err);
}

const struct handler handler_run_result = {.handle = handle};
