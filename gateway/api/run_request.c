/* Requests of training runs: signed with the requester's key, or by sijil-keyd for the caller's token (docs/runs.md). */
#include <stdio.h>
#include <string.h>

#include "authz/authenticate.h"
#include "authz/basic.h"
#include "authz/trust_login.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/keyd_client.h"
#include "gateway/api/run_priv.h"
#include "gateway/pipeline/document.h"
#include "training/format/spec.h"
#include "training/standing.h"

_Static_assert(sizeof TRUST_ISSUER == sizeof RUN_RULE_ISSUER, "a request names the issuer of trust rules as a token does");

PART(run_repeated_order, "a run, and its order", HAS_ID("run", REQUIRED, "the run"),
     HAS_TEXT("order", REQUIRED, FORM_DIGEST, 71, 71, "the digest of its order"))
SCHEMA(run_wanted, "a run that is asked for by the caller's token",
       HAS_ID("run", REQUIRED, "chosen by the client; a second request with it is refused"),
       HAS_NUMBER("lifetime_s", REQUIRED, 1, RUN_LIFE_MAX_MS / 1000, "how long the request may be ordered, in seconds"),
       HAS_ANY("spec", REQUIRED, "what is to run (docs/formats/run.md, \"Request\"); at most 45,056 bytes"),
       HAS_OBJECT("rerun", OPTIONAL, schema_run_repeated_order, "the run that this one repeats"))

#define ENVELOPE_MORE \
    3072 /* bytes of an envelope that are not of the body: two names of 512 bytes, a project and digests, in base64, and a signature */

/* ---- storing ---- */

struct asked {
    const struct run_envelope *envelope;
    struct bytes text; /* of the envelope */
    struct run_duties duties;
};

/* More approvals than an order can name are refused here, because nobody could give them. */
static struct result count_approvals(const struct request *request, const struct asked *asked, int64_t *wanted_out,
                                     struct error *err)
{
    const struct run_asker asker = {request->gateway->decider, &request->pairs[0].resource.organisation, asked->envelope};

    *wanted_out = run_approvals_wanted(&asker, asked->duties.approvals);
    if (*wanted_out <= RUN_APPROVALS_MAX) return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "the policies ask for %lld approvals, and a request by a trust rule, or by a robot's or a job's token, needs one more: sign it "
        "with an enrolled key (sijil run start --key)",
        (long long)asked->duties.approvals);
}

/* What it needs of the project: the most that it uses, and what must be there. */
static void add_needs(const struct request *request, const struct run_envelope *envelope, struct run_request *change)
{
    const json_t *resume = run_member(envelope, "spec.resume");

    change->cost = run_cost_of(envelope);
    change->rerun = run_rerun_of(envelope);
    change->bytes_max = request->gateway->settings->run_bytes_per_project;
    change->resume_repository = resume == NULL ? NULL : json_text_of(resume, "repository");
    change->resume_digest = resume == NULL ? NULL : json_text_of(resume, "digest");
}

static struct result prepare(struct request *request, const struct asked *asked, const struct resource *where,
                             struct run_request *change_out, struct error *err)
{
    const struct run_envelope *envelope = asked->envelope;
    struct run_signed signature = {.envelope = asked->text, .principal = run_text(envelope, "requester")};
    struct run run = {.expires_ms = run_time(envelope, "expires")};

    TRY(count_approvals(request, asked, &run.approvals_wanted, err));
    (void)uuid_parse(bytes_of_text(run_text(envelope, "run")), &run.id); /* its shape was checked */
    (void)snprintf(run.pool, sizeof run.pool, "%s", run_text(envelope, "spec.pool"));
    run_command_text(envelope, run.command);
    run_digest_bytes(envelope, signature.digest);
    run_request_prepare(where, &run, &signature, change_out);
    add_needs(request, envelope, change_out);
    return SUCCESS;
}

/* ---- a request that its requester has signed ---- */

/* The event names the request's digest and the run, so the body is read before the decision. */
struct result target_run_request(struct request *request, struct lookup *lookup, struct error *err)
{
    OWNED(run_envelope) *envelope = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_RUN_REQUEST)) return SUCCESS;
    if (!api_is_project_name(request->name)) {
        api_pair_of_project(request, ACTION_RUN_REQUEST);
        return SUCCESS;
    }
    TRY(run_body_read(request, RUN_REQUEST, &envelope, err));
    if (strcmp(run_text(envelope, "project"), request->name) != 0)
        return failure(err, ERROR_INVALID, "the path and the request name different projects");
    struct resource *where = api_pair(request, ACTION_RUN_REQUEST, RESOURCE_PROJECT, request->name);
    (void)snprintf(where->detail, sizeof where->detail, "%s %s", envelope->digest, run_text(envelope, "run"));
    return SUCCESS;
}

static struct result handle_request(struct request *request, struct pg *pg, struct error *err)
{
    OWNED(run_envelope) *envelope = NULL;
    struct asked asked = {.text = request->body};
    struct run_request change;

    TRY(run_body_read(request, RUN_REQUEST, &envelope, err));
    const struct run_chain chain = {.request = envelope};
    TRY(run_chain_check(&chain, err));
    TRY(run_check_life(envelope, err));
    TRY(run_check_caller(request, pg, envelope, "requester", err));
    TRY(run_check_repositories(request, run_member(envelope, "spec"), &asked.duties, err));
    asked.envelope = envelope;
    TRY(prepare(request, &asked, &request->pairs[0].resource, &change, err));
    TRY(request_record(request, &change.change, err));
    return run_answer(request, pg, ACTION_RUN_REQUEST, &change.run.id, err);
}

/* ---- a request by the caller's token ---- */

/* The request has no digest yet. Its event gets it, by request_record_instead(). */
struct result target_run_ask(struct request *request, struct lookup *lookup, struct error *err)
{
    const json_t *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_RUN_REQUEST)) return SUCCESS;
    if (!api_is_project_name(request->name)) {
        api_pair_of_project(request, ACTION_RUN_REQUEST);
        return SUCCESS;
    }
    TRY(request_document(request, &body, err));
    struct resource *where = api_pair(request, ACTION_RUN_REQUEST, RESOURCE_PROJECT, request->name);
    (void)snprintf(where->detail, sizeof where->detail, "%s", json_text_of(body, "run"));
    return SUCCESS;
}

/* The token of the caller, if it is one of ours: sijil-keyd verifies no other. */
static struct result find_token(const struct request *request, struct bytes *token_out, struct error *err)
{
    const char *header = request_header(request, "Authorization");
    enum authorization_scheme scheme = AUTHORIZATION_BASIC;
    struct error ignored = {0};

    if (!request->principal->is_limited || header == NULL || !authorization_split(header, &scheme, token_out, &ignored).ok ||
        scheme == AUTHORIZATION_BASIC)
        return failure(err, ERROR_DENIED,
                       "a run is asked for by a token of the registry, and this is another credential: exchange it at /token "
                       "first (sijil login, sijil ci login), or sign the request with an enrolled key");
    return SUCCESS;
}

/* A policy that asks for a signature is told before sijil-keyd has signed anything. */
static struct result check_duties(const struct run_duties *duties, struct error *err)
{
    if (!duties->signed_request) return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "the policies ask for a signed request: sign it with an enrolled key (sijil key enroll, sijil run start --key)");
}

/* The members of the request that is to be signed, as far as the gateway decides by them. */
static json_t *draft_of(const struct request *request, const char *asking, const json_t *body)
{
    const struct principal *caller = request->principal;
    const char *issuer = caller->kind == PRINCIPAL_ROBOT ? RUN_REGISTRY_ISSUER : caller->issuer;

    return json_pack("{s:s, s:O, s:O*, s:{s:s}}", "requester", asking, "spec", json_object_get(body, "spec"), "rerun",
                     json_object_get(body, "rerun"), "claims", "issuer", issuer);
}

/* All that storing would refuse is refused before sijil-keyd has signed anything: what it signs takes a place until a day after it expires. */
static struct result look(struct request *request, struct pg *pg, const json_t *body, const struct run_duties *duties,
                          struct error *err)
{
    char asking[PRINCIPAL_KEY_SIZE];
    principal_key(request->principal, asking);
    OWNED_JSON draft = draft_of(request, asking, body);
    const struct run_envelope envelope = {.type = RUN_REQUEST, .json = draft};
    const struct asked asked = {.envelope = &envelope, .duties = *duties};
    struct run_request wanted = {.where = request->pairs[0].resource};
    int64_t approvals = 0;

    if (draft == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a request of a run");
    TRY(count_approvals(request, &asked, &approvals, err));
    (void)uuid_parse(bytes_of_text(json_text_of(body, "run")), &wanted.run.id); /* the schema has checked it */
    wanted.request.principal = asking;
    wanted.request.envelope.length = request->body.length / 3 * 4 + ENVELOPE_MORE;
    add_needs(request, &envelope, &wanted);
    return run_request_look(lookup_of(pg), &wanted, err);
}

/* The message of sijil-keyd counts the places of all organisations, which is not the caller's business. */
static struct result ask_keyd(const struct request *request, const struct keyd_run_request *wanted, struct buffer *text,
                              struct error *err)
{
    struct error why = {0};

    if (keyd_run_request(request->gateway->keyd, wanted, text, &why).ok) return SUCCESS;
    if (why.kind != ERROR_LIMIT || wanted->spec.length > KEYD_SPEC_MAX) return failure(err, why.kind, "%s", why.message);
    return failure(
        err, ERROR_LIMIT,
        "sijil-keyd signs no more requests of you or of this project now: requests of yours, of the project or of its organisation must "
        "expire, or runs end, first. A request that you sign with an enrolled key takes no place");
}

static struct result sign(const struct request *request, const json_t *body, struct buffer *text, struct error *err)
{
    const struct principal *caller = request->principal;
    const json_t *rerun = json_object_get(body, "rerun");
    const struct authenticator *authenticator = request->gateway->authenticator;
    struct buffer OWNED_BUFFER spec = BUFFER(RUN_PAYLOAD_MAX);
    struct keyd_run_request wanted = {
        .issuer = bytes_of_text(authenticator_issuer(authenticator)),
        .audience = bytes_of_text(authenticator_service(authenticator)),
        .subject_issuer = bytes_of_text(caller->kind == PRINCIPAL_ROBOT ? "" : caller->issuer),
        .project = bytes_of_text(request->name),
        .is_rerun = rerun != NULL,
        .lifetime_s = (uint32_t)json_integer_value(json_object_get(body, "lifetime_s")),
    };

    TRY(find_token(request, &wanted.token, err));
    TRY(json_write_canonical(&spec, json_object_get(body, "spec"), err));
    wanted.spec = buffer_bytes(&spec);
    (void)uuid_parse(bytes_of_text(json_text_of(body, "run")), &wanted.run); /* the schema has checked these forms */
    if (rerun != NULL) {
        (void)uuid_parse(bytes_of_text(json_text_of(rerun, "run")), &wanted.rerun_run);
        (void)text_from_hex(bytes_of_text(json_text_of(rerun, "order") + strlen("sha256:")), wanted.rerun_order,
                            sizeof wanted.rerun_order);
    }
    return ask_keyd(request, &wanted, text, err);
}

/* What sijil-keyd has signed must be for this caller: the row and the event name the requester. */
static struct result read_back(const struct request *request, const struct buffer *text, struct run_envelope **envelope_out,
                               struct error *err)
{
    char asking[PRINCIPAL_KEY_SIZE];

    TRY(run_envelope_read(buffer_bytes(text), RUN_REQUEST, envelope_out, err));
    principal_key(request->principal, asking);
    if (strcmp(run_text(*envelope_out, "requester"), asking) == 0) return SUCCESS;
    return failure(err, ERROR_CORRUPT, "sijil-keyd has signed the request of another principal than %s", asking);
}

static struct result store(struct request *request, const struct asked *asked, struct uuid *id_out, struct error *err)
{
    struct action_pair pair = request->pairs[0];
    struct run_request change;

    (void)snprintf(pair.resource.detail, sizeof pair.resource.detail, "%s %s", asked->envelope->digest,
                   run_text(asked->envelope, "run"));
    TRY(prepare(request, asked, &pair.resource, &change, err));
    TRY(request_record_instead(request, &pair, 1, &change.change, err));
    *id_out = change.run.id;
    return SUCCESS;
}

/* Rights, duties and room come before sijil-keyd is asked: only callers that may train here take a place in its ledger, and only for what is stored. */
static struct result handle_ask(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RUN_ENVELOPE_MAX);
    OWNED(run_envelope) *envelope = NULL;
    const json_t *body = NULL;
    struct run_shape_fault fault;
    struct bytes token;
    struct asked asked = {.text = {NULL, 0}};
    struct uuid id;

    TRY(request_document(request, &body, err));
    TRY(find_token(request, &token, err));
    TRY(run_spec_locate(json_object_get(body, "spec"), &fault, err));
    TRY(run_check_repositories(request, json_object_get(body, "spec"), &asked.duties, err));
    TRY(check_duties(&asked.duties, err));
    TRY(look(request, pg, body, &asked.duties, err));
    TRY(sign(request, body, &text, err));
    TRY(read_back(request, &text, &envelope, err));
    asked.envelope = envelope;
    asked.text = buffer_bytes(&text);
    TRY(store(request, &asked, &id, err));
    return run_answer(request, pg, ACTION_RUN_REQUEST, &id, err);
}

const struct handler handler_run_request = {.handle = handle_request};
const struct handler handler_run_ask = {.handle = handle_ask};
