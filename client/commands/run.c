/* `sijil run ...`: training runs (docs/runs.md). Requests and approvals are signed on this machine. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/local.h"
#include "client/manifest.h"
#include "crypto/random.h"
#include "training/format/compose.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PATH_ROOM    1024
#define HOUR_MS      INT64_C(3600000)
#define LIFE_DEFAULT 24  /* hours */
#define LIFE_MAX     720 /* docs/formats/run.md: 30 days */

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for a run");
}

static struct result run_path(struct invocation *invocation, const char *rest, struct buffer *path, struct error *err)
{
    struct uuid id;

    if (!uuid_parse(bytes_of_text(invocation->operands[2]), &id))
        return line_check(invocation, failure(err, ERROR_INVALID, "'%.60s' is not the id of a run", invocation->operands[2]));
    return buffer_format(path, err, "/projects/%s/runs/%s%s", invocation->operands[1], invocation->operands[2], rest);
}

static struct result print_run(const struct invocation *invocation, json_t *run, struct error *err)
{
    (void)json_object_del(run, "envelopes");
    return api_print(invocation, run, err);
}

/* ---- signing ---- */

/* The members that requests and approvals have in common. */
struct head {
    const char *audience; /* a view into the registry's answer */
    int64_t issued_ms, expires_ms;
    char nonce[33];
};

/* `self`: the registry's answer, which the caller owns. */
static struct result make_head(struct session *session, int64_t hours, json_t **self, struct head *head_out, struct error *err)
{
    uint8_t random[16];

    TRY(api_call_in(session, "GET", "/self", NULL, self, err));
    head_out->audience = json_text_of(*self, "audience");
    if (head_out->audience == NULL)
        return failure(err, ERROR_INVALID, "the registry does not name its log: it is older than this program");
    head_out->issued_ms = clock_wall_ms();
    head_out->expires_ms = head_out->issued_ms + hours * HOUR_MS;
    random_bytes(random, sizeof random);
    text_hex(random, sizeof random, head_out->nonce);
    return SUCCESS;
}

static struct result sign(const struct ecdsa_key *key, enum run_type type, struct bytes payload, json_t **envelope_out,
                          struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);

    TRY(run_sign(type, payload, key, &envelope, err));
    return json_read(buffer_bytes(&envelope), RUN_ENVELOPE_MAX, envelope_out, err);
}

static struct result life_option(struct invocation *invocation, int64_t *hours_out, struct error *err)
{
    const char *text = invocation_option(invocation, 'e');
    uint64_t hours = LIFE_DEFAULT;

    if (text != NULL && (!text_to_u64(bytes_of_text(text), LIFE_MAX, &hours) || hours == 0))
        return line_check(invocation, failure(err, ERROR_INVALID, "--expires %.30s: hours from 1 to %d", text, LIFE_MAX));
    *hours_out = (int64_t)hours;
    return SUCCESS;
}

/* ---- the spec ---- */

static struct result read_spec(const char *path, json_t **spec_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RUN_PAYLOAD_MAX);
    OWNED_JSON defaults = json_pack("{s:{}, s:[], s:i, s:i, s:s, s:i, s:s}", "environment", "inputs", "nodes", 1, "tasks", 1,
                                    "network", "none", "assurance", 1, "pool", "default");
    OWNED_JSON spec = NULL;

    TRY(local(file_read(path, &text, err), path, err));
    TRY(local(json_read(buffer_bytes(&text), RUN_PAYLOAD_MAX, &spec, err), path, err));
    if (!json_is_object(spec)) return failure(err, ERROR_INVALID, "%.200s: a spec is a JSON object (docs/runs.md)", path);
    if (defaults == NULL || json_object_update_missing(spec, defaults) != 0) return no_memory(err);
    *spec_out = GIVE(spec);
    return SUCCESS;
}

/* An artifact with "reference" gets the repository and the digest that the reference has now. */
static struct result resolve(struct session *session, const char *host, json_t *artifact, struct error *err)
{
    const char *text = json_text_of(artifact, "reference");
    char whole[700], scope[400];
    struct remote_reference reference;
    OWNED_MANIFEST manifest = MANIFEST;

    if (text == NULL) return SUCCESS;
    (void)snprintf(whole, sizeof whole, "%.250s/%.400s", host, text);
    TRY(remote_reference_parse(whole, &reference, err));
    (void)snprintf(scope, sizeof scope, "repository:%s:pull", reference.repository);
    TRY(manifest_fetch(session, scope, &reference, ACCEPTED_MANIFESTS ", " ACCEPTED_INDEXES, &manifest, err));
    (void)json_object_del(artifact, "reference");
    if (json_object_set_new(artifact, "repository", json_string(reference.repository)) != 0 ||
        json_object_set_new(artifact, "digest", json_string(manifest.digest)) != 0)
        return no_memory(err);
    return SUCCESS;
}

static struct result resolve_all(struct session *session, const char *host, const json_t *spec, struct error *err)
{
    const json_t *inputs = json_object_get(spec, "inputs");

    TRY(resolve(session, host, json_object_get(spec, "code"), err));
    TRY(resolve(session, host, json_object_get(spec, "image"), err));
    TRY(resolve(session, host, json_object_get(spec, "resume"), err));
    for (size_t i = 0; i < json_array_size(inputs); i++) TRY(resolve(session, host, json_array_get(inputs, i), err));
    return SUCCESS;
}

/* ---- the commands ---- */

static struct result request(const struct invocation *invocation, struct session *session, int64_t hours, const json_t *spec,
                             struct buffer *payload, struct error *err)
{
    const struct uuid id = uuid_random();
    char run[UUID_TEXT_SIZE], principal[SIGNING_PRINCIPAL_SIZE];
    OWNED_JSON self = NULL;
    struct head head;

    TRY(command_principal(session, principal, err));
    TRY(make_head(session, hours, &self, &head, err));
    uuid_format(&id, run);
    const struct run_request_parts parts = {.run = run,
                                            .audience = head.audience,
                                            .project = invocation->operands[1],
                                            .requester = principal,
                                            .nonce = head.nonce,
                                            .issued_ms = head.issued_ms,
                                            .expires_ms = head.expires_ms,
                                            .spec = spec};
    return run_request_write(&parts, payload, err);
}

struct result command_run_start(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM), payload = BUFFER(RUN_PAYLOAD_MAX);
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON spec = NULL;
    OWNED_JSON envelope = NULL;
    OWNED_JSON answer = NULL;
    int64_t hours = 0;

    TRY(life_option(invocation, &hours, err));
    TRY(command_signer(invocation, &key, err));
    TRY(read_spec(invocation->operands[2], &spec, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(resolve_all(session, invocation->operands[0], spec, err));
    TRY(request(invocation, session, hours, spec, &payload, err));
    TRY(sign(key, RUN_REQUEST, buffer_bytes(&payload), &envelope, err));
    TRY(buffer_format(&path, err, "/projects/%s/runs", invocation->operands[1]));
    TRY(api_call_in(session, "POST", buffer_text(&path), envelope, &answer, err));
    return print_run(invocation, answer, err);
}

struct result command_run_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"ID", "id"},
                                            {"STATE", "state"},
                                            {"POOL", "pool"},
                                            {"APPROVALS", "approvals"},
                                            {"OF", "approvals_wanted"},
                                            {"REQUESTED", "requested"}};
    const char *state = invocation_option(invocation, 't');
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);

    TRY(buffer_format(&path, err, "/projects/%s/runs%s", invocation->operands[1], state == NULL ? "" : "?state="));
    if (state != NULL) TRY(http_escape(&path, state, err));
    return api_list(invocation, buffer_text(&path), "runs", columns, COUNT(columns), err);
}

struct result command_run_show(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED_JSON run = NULL;

    TRY(run_path(invocation, "", &path, err));
    TRY(api_call(invocation, "GET", buffer_text(&path), NULL, &run, err));
    return invocation->json ? api_print_json(run, err) : print_run(invocation, run, err);
}

/* Reads the request from its signed bytes. The registry's description of it is not trusted. */
static struct result read_request(const struct invocation *invocation, const json_t *run, struct run_envelope **request_out,
                                  struct error *err)
{
    const char *text = json_text_of(json_array_get(json_object_get(run, "envelopes"), 0), "envelope");
    OWNED(run_envelope) *request = NULL;

    if (text == NULL) return failure(err, ERROR_INVALID, "the registry answered without the request of the run");
    TRY(run_envelope_read(bytes_of_text(text), RUN_REQUEST, &request, err));
    if (strcmp(run_text(request, "run"), invocation->operands[2]) != 0 ||
        strcmp(run_text(request, "project"), invocation->operands[1]) != 0)
        return failure(err, ERROR_CORRUPT, "the registry answered with the request of another run");
    *request_out = GIVE(request);
    return SUCCESS;
}

/* On standard error, so that the approver sees the request. Canonical JSON escapes characters that steer a terminal. */
static struct result show_request(const struct run_envelope *request, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RUN_PAYLOAD_MAX);

    TRY(json_write_canonical(&text, run_member(request, "spec"), err));
    (void)fprintf(stderr, "request %s of %s:\n%s\n", request->digest, run_text(request, "requester"), buffer_text(&text));
    return SUCCESS;
}

static struct result approve(struct invocation *invocation, struct session *session, const struct run_envelope *request,
                             const struct ecdsa_key *key, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM), payload = BUFFER(RUN_PAYLOAD_MAX);
    char principal[SIGNING_PRINCIPAL_SIZE];
    OWNED_JSON self = NULL;
    OWNED_JSON envelope = NULL;
    OWNED_JSON answer = NULL;
    struct head head;

    TRY(command_principal(session, principal, err));
    TRY(make_head(session, LIFE_DEFAULT, &self, &head, err));
    if (strcmp(head.audience, run_text(request, "audience")) != 0)
        return failure(err, ERROR_CORRUPT, "the request is for the registry %.100s; this one is %.100s",
                       run_text(request, "audience"), head.audience);
    const struct run_approval_parts parts = {principal, head.nonce, head.issued_ms, head.expires_ms};
    TRY(run_approval_write(request, &parts, &payload, err));
    TRY(sign(key, RUN_APPROVAL, buffer_bytes(&payload), &envelope, err));
    TRY(run_path(invocation, "/approvals", &path, err));
    TRY(api_call_in(session, "POST", buffer_text(&path), envelope, &answer, err));
    return print_run(invocation, answer, err);
}

struct result command_run_approve(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED(run_envelope) *request = NULL;
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON run = NULL;

    TRY(run_path(invocation, "", &path, err));
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(api_call_in(session, "GET", buffer_text(&path), NULL, &run, err));
    TRY(read_request(invocation, run, &request, err));
    if (!invocation->json) TRY(show_request(request, err));
    return approve(invocation, session, request, key, err);
}

struct result command_run_cancel(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);

    TRY(run_path(invocation, "", &path, err));
    return api_call(invocation, "DELETE", buffer_text(&path), NULL, NULL, err);
}
