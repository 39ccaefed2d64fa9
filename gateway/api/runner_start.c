/* POST /api/v1/runner/runs/{reference}/start: a node is ready to start. Of several nodes none starts before all are ready (docs/runs.md, "Several nodes"). */
#include <string.h>

#include "gateway/api/run_priv.h"
#include "gateway/api/runner_work_priv.h"
#include "gateway/pipeline/run_gate.h"
#include "training/format/certificate.h"
#include "training/format/form.h"

SCHEMA(
    run_ready, "a node of a run is ready to start", HAS_NUMBER("attempt", REQUIRED, 1, 100, "as in the lease"),
    HAS_NUMBER("node", REQUIRED, 0, 255, "as in the lease"),
    HAS_TEXT("certificate", REQUIRED, FORM_FREE, 1, RUN_CERTIFICATE_MAX,
             "the envelope (DSSE), signed with the runner's key: it certifies the key that will sign the result"),
    HAS_TEXT(
        "listen", OPTIONAL, FORM_FREE, 3, RUN_LISTEN_SIZE - 1,
        "where the other nodes reach this one: an IP address and a port. For a run of several nodes whose tasks reach each other"))

PART(run_peer, "another node of the attempt", HAS_NUMBER("node", REQUIRED, 0, 255, "which one"),
     HAS_TEXT("listen", OPTIONAL, FORM_FREE, 3, RUN_LISTEN_SIZE - 1, "where it is reached"),
     HAS_TEXT("lease", REQUIRED, FORM_FREE, 1, RUN_ENVELOPE_MAX, "the envelope of its lease: believe nothing else of it"),
     HAS_TEXT("certificate", REQUIRED, FORM_FREE, 1, RUN_CERTIFICATE_MAX, "the envelope that certifies the key of its attempt"))

SCHEMA(run_started, "whether the program may start",
       HAS_FLAG("ready", REQUIRED, "all nodes are ready, and the run is running: start the program"),
       HAS_COUNT("every_ms", OPTIONAL, "until the next question, if not all are ready"),
       HAS_LIST("peers", OPTIONAL, 255, schema_run_peer, "the other nodes, in order, if all are ready"))

struct result target_run_start(struct request *request, struct lookup *lookup, struct error *err)
{
    return runner_target_lease(request, lookup, ACTION_RUN_START, err);
}

static struct result say_ended(const struct run_held *held, struct error *err)
{
    return failure(err, ERROR_CONFLICT, "the lease has ended%s%.160s: do not start the program",
                   held->reason[0] == '\0' ? "" : ", ", held->reason);
}

/* ---- one node ---- */

static struct result start(struct request *request, const struct run_holder *holder, const struct run_held *held,
                           struct error *err)
{
    struct run_step change;

    run_start_prepare(&held->where, holder, &change);
    return request_record(request, &change.change, err);
}

static struct result start_alone(struct request *request, struct pg *pg, const struct run_holder *holder,
                                 const struct run_held *held, struct error *err)
{
    const json_t *body = NULL;
    int64_t ready = 0;

    TRY(request_document(request, &body, err));
    const struct run_readiness readiness = {.listen = "", .certificate = json_text_of(body, "certificate")};
    if (json_text_of(body, "listen") != NULL) return failure(err, ERROR_INVALID, "listen: only for a run of several nodes");
    TRY(run_ready(pg, holder, &readiness, &ready, err));
    if (held->state != RUN_STATE_RUNNING) TRY(start(request, holder, held, err)); /* else an answer was lost */
    response_empty(request, 204);
    return SUCCESS;
}

/* ---- several nodes ---- */

static struct result check_listen(const struct request *request, struct pg *pg, const struct run_holder *holder,
                                  const char *listen, struct error *err)
{
    OWNED(run_envelope) *order = NULL;
    int64_t ends_ms = 0;

    if (listen != NULL && !form_endpoint(listen))
        return failure(err, ERROR_INVALID,
                       "listen: an IP address and a port are expected, such as 192.0.2.7:4711 or [2001:db8::7]:4711");
    TRY(run_lease_prove(request, pg, holder, &order, &ends_ms, err));
    if (listen == NULL && strcmp(run_text(order, "spec.network"), "tasks") == 0)
        return failure(err, ERROR_INVALID, "listen: the tasks of this run reach each other, so say where this node is reached");
    return SUCCESS;
}

/* The last node that is ready moves the run. Two may be the last at once: the other one finds it running. */
static struct result move(struct request *request, struct pg *pg, const struct run_holder *holder, struct run_held *held,
                          struct error *err)
{
    struct error why = {0};

    if (!start(request, holder, held, &why).ok && why.kind != ERROR_CONFLICT) return failure(err, why.kind, "%s", why.message);
    return run_held_find(lookup_of(pg), holder, held, err);
}

static json_t *peer_json(const struct pg_rows *rows, size_t row)
{
    json_t *peer = json_pack("{s:I, s:s, s:s}", "node", (json_int_t)pg_int8(rows, row, 0), "lease", pg_text(rows, row, 2),
                             "certificate", pg_text(rows, row, 3));
    const char *listen = pg_text(rows, row, 1);

    if (peer == NULL || listen[0] == '\0' || json_object_set_new(peer, "listen", json_string(listen)) == 0) return peer;
    json_decref(peer);
    return NULL;
}

static struct result answer_peers(struct request *request, struct pg *pg, const struct run_holder *holder, struct error *err)
{
    json_t *peers = json_array();
    OWNED_JSON value = json_pack("{s:b, s:o}", "ready", 1, "peers", peers);
    OWNED(pg_rows) *rows = NULL;

    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    TRY(run_peers(lookup_of(pg), holder, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++)
        if (json_array_append_new(peers, peer_json(rows, i)) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result answer_wait(struct request *request, struct error *err)
{
    OWNED_JSON value = json_pack("{s:b, s:I}", "ready", 0, "every_ms", (json_int_t)RUN_BARRIER_EVERY_MS);

    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result start_together(struct request *request, struct pg *pg, const struct run_holder *holder,
                                    struct run_held *held, struct error *err)
{
    const json_t *body = NULL;
    int64_t ready = 0;

    TRY(request_document(request, &body, err));
    const char *listen = json_text_of(body, "listen");
    TRY(check_listen(request, pg, holder, listen, err));
    const struct run_readiness readiness = {.listen = listen == NULL ? "" : listen,
                                            .certificate = json_text_of(body, "certificate")};
    TRY(run_ready(pg, holder, &readiness, &ready, err));
    if (held->state == RUN_STATE_LEASED && ready == held->nodes) TRY(move(request, pg, holder, held, err));
    if (runner_lease_has_ended(held)) return say_ended(held, err);
    return held->state == RUN_STATE_RUNNING ? answer_peers(request, pg, holder, err) : answer_wait(request, err);
}

static struct result handle_start(struct request *request, struct pg *pg, struct error *err)
{
    struct run_holder holder;
    struct run_held held;
    const json_t *body = NULL;

    TRY(runner_find_lease(request, pg, &holder, &held, err));
    if (runner_lease_has_ended(&held)) return say_ended(&held, err);
    TRY(request_document(request, &body, err));
    TRY(run_certificate_prove(request, pg, &holder, bytes_of_text(json_text_of(body, "certificate")), err));
    if (held.nodes > 1) return start_together(request, pg, &holder, &held, err);
    return start_alone(request, pg, &holder, &held, err);
}

const struct handler handler_run_start = {.handle = handle_start};
