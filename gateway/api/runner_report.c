/* /api/v1/runner/runs: what the holder of a lease reports: that it is alive, that it refuses. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/api/run_priv.h"
#include "gateway/api/runner_work_priv.h"
#include "gateway/pipeline/run_gate.h"
#include "training/unproven.h"

SCHEMA(run_heartbeat, "a runner is alive", HAS_NUMBER("attempt", REQUIRED, 1, 100, "as in the lease"),
       HAS_NUMBER("node", REQUIRED, 0, 255, "as in the lease"),
       HAS_WORD("phase", REQUIRED, "fetching running finishing", "what it does"),
       HAS_NUMBER("progress", OPTIONAL, 0, 100, "in percent, as the program says"),
       HAS_COUNT("cpu_ms", REQUIRED, "processor time so far"), HAS_COUNT("device_ms", REQUIRED, "time of devices so far"),
       HAS_COUNT("memory_bytes", REQUIRED, "in use now"))

SCHEMA(run_heard, "what the registry says to a heartbeat",
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 32, "of the run (docs/runs.md)"),
       HAS_FLAG("stop", REQUIRED, "the program must be ended: the run must not go on, or the lease has ended"),
       HAS_TEXT("reason", OPTIONAL, FORM_FREE, 1, RUN_REASON_SIZE - 1, "why it must"),
       HAS_COUNT("every_ms", REQUIRED, "until the next heartbeat"))

SCHEMA(run_refusal, "a runner does not run what it has a lease for", HAS_NUMBER("attempt", REQUIRED, 1, 100, "as in the lease"),
       HAS_NUMBER("node", REQUIRED, 0, 255, "as in the lease"),
       HAS_TEXT("refusal", REQUIRED, FORM_FREE, 1, 0, "the envelope (DSSE), signed with the runner's key"))

/* ---- the lease ---- */

struct result runner_read_holder(struct request *request, struct run_holder *holder_out, struct error *err)
{
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    *holder_out = (struct run_holder){.key = request->runner->name};
    TRY(api_id(request, "run", &holder_out->run, err));
    (void)json_integer_of(body, "attempt", &holder_out->attempt);
    (void)json_integer_of(body, "node", &holder_out->node);
    return SUCCESS;
}

void runner_pair_of_lease(struct request *request, enum action action, const struct run_holder *holder,
                          const struct run_held *held)
{
    struct resource *resource = api_pair(request, action, RESOURCE_PROJECT, held->where.name);

    (void)snprintf(resource->region, sizeof resource->region, "%s", request->runner->key.region);
    runner_name_lease(holder, resource->detail);
    if (!uuid_equal(&resource->project, &held->where.project)) response_unknown(request); /* another project has the name now */
}

/* A runner names its own lease. That of another does not exist for it. */
struct result runner_target_lease(struct request *request, struct lookup *lookup, enum action action, struct error *err)
{
    struct run_holder holder;
    struct run_held held;
    struct error why = {0};

    if (api_asks_for_credential(request, action)) return SUCCESS;
    TRY(runner_read_holder(request, &holder, err));
    if (!run_held_find(lookup, &holder, &held, &why).ok) {
        if (why.kind != ERROR_NOT_FOUND) return failure(err, why.kind, "%s", why.message);
        response_unknown(request);
        return SUCCESS;
    }
    runner_pair_of_lease(request, action, &holder, &held);
    return SUCCESS;
}

struct result target_run_heartbeat(struct request *request, struct lookup *lookup, struct error *err)
{
    return runner_target_lease(request, lookup, ACTION_RUN_HEARTBEAT, err);
}

struct result target_run_refusal(struct request *request, struct lookup *lookup, struct error *err)
{
    return runner_target_lease(request, lookup, ACTION_RUN_REFUSE, err);
}

struct result runner_find_lease(struct request *request, struct pg *pg, struct run_holder *holder_out, struct run_held *held_out,
                                struct error *err)
{
    TRY(runner_read_holder(request, holder_out, err));
    TRY(run_held_find(lookup_of(pg), holder_out, held_out, err));
    return runner_check_reporter(request, held_out, err);
}

bool runner_lease_has_ended(const struct run_held *held)
{
    return held->has_ended || run_state_is_end(held->state);
}

void runner_name_node(const struct run_held *held, const struct run_holder *holder, char text_out[RUNNER_NODE_SIZE])
{
    text_out[0] = '\0';
    if (held->nodes > 1) (void)snprintf(text_out, RUNNER_NODE_SIZE, "node %u: ", (unsigned)(uint8_t)holder->node);
}

/* ---- heartbeat ---- */

static struct result say(struct request *request, const struct run_held *held, struct error *err)
{
    const bool stops = runner_lease_has_ended(held);
    OWNED_JSON value = json_pack("{s:s, s:b, s:I}", "state", run_state_name(held->state), "stop", stops, "every_ms",
                                 (json_int_t)RUN_HEARTBEAT_EVERY_MS);

    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    if (stops &&
        json_object_set_new(value, "reason", json_string(held->reason[0] != '\0' ? held->reason : "the lease has ended")) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result hear(struct request *request, struct pg *pg, const struct run_holder *holder, struct error *err)
{
    struct run_heard heard = {.progress = -1};
    struct error why = {0};
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    heard.phase = json_text_of(body, "phase");
    (void)json_integer_of(body, "progress", &heard.progress);
    (void)json_integer_of(body, "cpu_ms", &heard.cpu_ms);
    (void)json_integer_of(body, "device_ms", &heard.device_ms);
    (void)json_integer_of(body, "memory_bytes", &heard.memory_bytes);
    if (run_heartbeat(pg, holder, &heard, &why).ok || why.kind == ERROR_CONFLICT) return SUCCESS; /* it ended just now */
    return failure(err, why.kind, "%s", why.message);
}

/* A dataset may have another label than at the lease, its requester other rights, or the policies may be others. */
static struct result decide_again(struct request *request, const struct runner_again *again, const struct run_holder *holder,
                                  const struct run_held *held, char reason[RUN_REASON_SIZE], struct error *err)
{
    enum runner_verdict verdict = RUNNER_MAY_NOT;
    struct error why = {0};

    TRY(runner_decide_again(request, again, &verdict, reason, err));
    if (verdict == RUNNER_MAY) return SUCCESS;
    const struct run_forbidden forbidden = {ACTION_RUN_HEARTBEAT, &held->where, &holder->run, reason};
    TRY(request_record(request, NULL, err));
    if (run_forbid(request->permit, request->gateway->sequencer, &forbidden, &why).ok || why.kind == ERROR_CONFLICT)
        return SUCCESS;
    return failure(err, why.kind, "%s", why.message);
}

/* Whoever writes into rows can keep the run from ending, but not the runner from stopping. */
static void stop(struct run_held *held, const char *reason)
{
    if (runner_lease_has_ended(held)) return;
    held->has_ended = true;
    (void)snprintf(held->reason, sizeof held->reason, "%s", reason);
}

/* What passes by itself takes no attempt from anybody. All else may be false rows: with them the attempt ends with its deadline. */
static bool will_pass(const struct error *why)
{
    return why->kind == ERROR_UNAVAILABLE || why->kind == ERROR_UNCERTAIN || why->kind == ERROR_FULL ||
           why->kind == ERROR_NO_MEMORY;
}

static struct result handle_heartbeat(struct request *request, struct pg *pg, struct error *err)
{
    OWNED(run_envelope) *order = NULL, *asked = NULL;
    struct run_holder holder;
    struct run_held held;
    int64_t ends_ms = 0;
    struct error why = {0};
    char reason[RUN_REASON_SIZE] = ""; /* why it may not go on */

    TRY(runner_find_lease(request, pg, &holder, &held, err));
    if (runner_lease_has_ended(&held)) return say(request, &held, err);
    TRY(run_lease_prove(request, pg, &holder, &order, &ends_ms, err));
    TRY(run_request_find(lookup_of(pg), &holder.run, &asked, err));
    const struct runner_again again = {order, asked, &held.where};
    const struct result decided = decide_again(request, &again, &holder, &held, reason, &why);
    if (reason[0] == '\0' && (decided.ok || will_pass(&why))) TRY(hear(request, pg, &holder, err));
    if (!decided.ok) return failure(err, why.kind, "%s", why.message);
    TRY(run_held_find(lookup_of(pg), &holder, &held, err));
    if (reason[0] != '\0') stop(&held, reason);
    return say(request, &held, err);
}

/* ---- refusal ---- */

static struct result read_refusal(struct request *request, struct bytes *text_out, struct run_envelope **refusal_out,
                                  struct error *err)
{
    OWNED(run_envelope) *refusal = NULL;
    OWNED(ecdsa_key) *key = NULL;
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    *text_out = bytes_of_text(json_text_of(body, "refusal"));
    TRY(run_envelope_read(*text_out, RUN_REFUSAL, &refusal, err));
    TRY(ecdsa_key_from_public(request->runner->key.point, &key, err));
    TRY(run_check_signer(refusal, key, err));
    *refusal_out = GIVE(refusal);
    return SUCCESS;
}

static bool is_return(const struct run_envelope *refusal)
{
    return strcmp(run_text(refusal, "check"), RUN_CHECK_MACHINE) == 0;
}

/* What is known of a refusal that holds. */
struct refused {
    bool is_again; /* the very same one is stored */
    bool is_last;  /* the order allows no attempt after it */
};

static struct result check_refusal(struct request *request, struct pg *pg, const struct run_holder *holder,
                                   const struct run_envelope *refusal, struct refused *refused_out, struct error *err)
{
    const struct run_papers_query query = {
        .action = ACTION_RUN_REFUSE, .run = holder->run, .last = RUN_LEASE, .attempt = holder->attempt, .node = holder->node};
    OWNED(run_papers) *papers = NULL;

    TRY(run_papers_read(request->permit, pg, &query, &papers, err));
    struct run_chain chain = papers->chain;
    *refused_out = (struct refused){.is_again = run_papers_have(papers, refusal)};
    if (refused_out->is_again) return SUCCESS;
    if (chain.lease == NULL) return failure(err, ERROR_CONFLICT, "the lease is not signed yet");
    chain.refusal = refusal;
    refused_out->is_last = holder->attempt >= run_integer(chain.order, "attempts");
    return run_chain_check(&chain, err);
}

/* A refusal, with where it belongs. */
struct refusing {
    struct run_holder holder;
    struct run_held held;
    struct bytes text;
    bool is_last;
};

static struct result store_refusal(struct request *request, const struct refusing *refusing, const struct run_envelope *refusal,
                                   struct error *err)
{
    char reason[RUN_REASON_SIZE], node[RUNNER_NODE_SIZE], signer[PRINCIPAL_KEY_SIZE];
    struct run_signed stored = {.envelope = refusing->text};
    const struct resource *where = &refusing->held.where;
    struct run_step change;

    principal_key(request->principal, signer);
    stored.principal = signer;
    run_digest_bytes(refusal, stored.digest);
    runner_name_node(&refusing->held, &refusing->holder, node);
    (void)snprintf(reason, sizeof reason, "%s%.63s: %.170s", node, run_text(refusal, "check"), run_text(refusal, "reason"));
    if (is_return(refusal)) run_return_prepare(where, &refusing->holder, &stored, refusing->is_last, reason, &change);
    else run_refuse_prepare(where, &refusing->holder, &stored, reason, &change);
    return request_record(request, &change.change, err);
}

static struct result handle_refusal(struct request *request, struct pg *pg, struct error *err)
{
    OWNED(run_envelope) *refusal = NULL;
    struct refusing refusing;
    struct refused refused;

    TRY(runner_find_lease(request, pg, &refusing.holder, &refusing.held, err));
    TRY(read_refusal(request, &refusing.text, &refusal, err));
    TRY(request_record(request, NULL, err)); /* the event of the right to refuse comes first: only then may the run be read */
    TRY(check_refusal(request, pg, &refusing.holder, refusal, &refused, err));
    refusing.is_last = refused.is_last;
    if (!refused.is_again) TRY(store_refusal(request, &refusing, refusal, err));
    response_empty(request, 204);
    return SUCCESS;
}

const struct handler handler_run_heartbeat = {.handle = handle_heartbeat};
const struct handler handler_run_refusal = {.handle = handle_refusal};
