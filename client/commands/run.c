/* `sijil run approve`, `cancel`, and what the commands of training runs have in common (docs/runs.md). Persons sign on this machine. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/run_priv.h"
#include "client/hosts.h"
#include "client/terminal.h"
#include "crypto/random.h"
#include "training/format/form.h"

#define HOUR_MS      INT64_C(3600000)
#define LIFE_DEFAULT 24  /* hours */
#define LIFE_MAX     720 /* docs/formats/run.md: 30 days */

struct result run_project_check(struct invocation *invocation, struct error *err)
{
    const char *project = invocation->operands[1], *host = invocation->operands[0];
    char command[300]; /* a host has 253 bytes */

    if (form_project(project)) return SUCCESS;
    (void)snprintf(command, sizeof command, "sijil admin project list %.253s", host);
    report_explain(invocation_report(invocation), "try", command);
    return line_check(
        invocation, failure(err, ERROR_INVALID,
                            "'%.80s' is not the name of a project: that is ORGANISATION/PROJECT, such as acme/models", project));
}

struct result run_address_of(struct invocation *invocation, struct run_address *address_out, struct error *err)
{
    const char *const *words = invocation->operands;
    struct uuid id;

    TRY(run_project_check(invocation, err));
    if (!uuid_parse(bytes_of_text(words[2]), &id))
        return line_check(invocation, failure(err, ERROR_INVALID, "'%.60s' is not the id of a run", words[2]));
    *address_out = (struct run_address){.host = words[0], .project = words[1], .run = words[2]};
    return SUCCESS;
}

struct result run_path(const struct run_address *address, const char *rest, struct buffer *path, struct error *err)
{
    return buffer_format(path, err, "/projects/%s/runs/%s%s", address->project, address->run, rest);
}

struct result run_read(struct session *session, const struct run_address *address, json_t **run_out, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(RUN_PATH_MAX);

    TRY(run_path(address, "", &path, err));
    return api_call_in(session, "GET", buffer_text(&path), NULL, run_out, err);
}

/* ---- signing ---- */

struct result run_head_make(struct session *session, int64_t hours, struct run_head *head_out, struct error *err)
{
    struct run_head head = {.issued_ms = clock_wall_ms()};
    OWNED_JSON self = NULL;
    uint8_t random[16];

    TRY(api_call_in(session, "GET", "/self", NULL, &self, err));
    TRY(self_principal(self, head.principal, err));
    const char *audience = json_text_of(self, "audience");
    if (audience == NULL || strlen(audience) >= sizeof head.audience)
        return failure(err, ERROR_INVALID, "the registry does not name its log: it is older than this program");
    (void)snprintf(head.audience, sizeof head.audience, "%s", audience);
    head.expires_ms = head.issued_ms + hours * HOUR_MS;
    random_bytes(random, sizeof random);
    text_hex(random, sizeof random, head.nonce);
    *head_out = head;
    return SUCCESS;
}

struct result run_seal(const struct ecdsa_key *key, enum run_type type, struct bytes payload, json_t **envelope_out,
                       struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);

    TRY(run_sign(type, payload, key, &envelope, err));
    return json_read(buffer_bytes(&envelope), RUN_ENVELOPE_MAX, envelope_out, err);
}

struct result run_life_option(struct invocation *invocation, int64_t *hours_out, struct error *err)
{
    const char *text = invocation_option(invocation, 'e');
    uint64_t hours = LIFE_DEFAULT;

    if (text != NULL && (!text_to_u64(bytes_of_text(text), LIFE_MAX, &hours) || hours == 0))
        return line_check(invocation, failure(err, ERROR_INVALID, "--expires %.30s: hours from 1 to %d", text, LIFE_MAX));
    *hours_out = (int64_t)hours;
    return SUCCESS;
}

static struct result request(struct session *session, const struct run_wish *wish, int64_t hours, const char *run,
                             struct buffer *payload, struct error *err)
{
    struct run_head head;

    TRY(run_head_make(session, hours, &head, err));
    const struct run_request_parts parts = {.run = run,
                                            .audience = head.audience,
                                            .project = wish->project,
                                            .requester = head.principal,
                                            .nonce = head.nonce,
                                            .issued_ms = head.issued_ms,
                                            .expires_ms = head.expires_ms,
                                            .rerun_run = wish->rerun == NULL ? NULL : run_text(wish->rerun, "run"),
                                            .rerun_order = wish->rerun == NULL ? NULL : wish->rerun->digest,
                                            .spec = wish->spec};
    return run_request_write(&parts, payload, err);
}

/* What sijil-keyd shall sign for the token of the login. */
static struct result write_wanted(const struct run_wish *wish, int64_t hours, const char *run, json_t **wanted_out,
                                  struct error *err)
{
    OWNED_JSON wanted = json_pack("{s:s, s:I, s:O}", "run", run, "lifetime_s", (json_int_t)(hours * HOUR_MS / 1000), "spec",
                                  (json_t *)(uintptr_t)wish->spec);

    if (wanted == NULL || (wish->rerun != NULL && json_object_set_new(wanted, "rerun",
                                                                      json_pack("{s:s, s:s}", "run", run_text(wish->rerun, "run"),
                                                                                "order", wish->rerun->digest)) != 0))
        return failure(err, ERROR_NO_MEMORY, "no memory for a run");
    *wanted_out = GIVE(wanted);
    return SUCCESS;
}

struct result run_ask(struct session *session, const struct run_wish *wish, int64_t hours, const struct ecdsa_key *key,
                      json_t **answer_out, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(RUN_PATH_MAX), payload = BUFFER(RUN_PAYLOAD_MAX);
    const struct uuid id = uuid_random();
    char run[UUID_TEXT_SIZE];
    OWNED_JSON asked = NULL;
    OWNED_JSON answer = NULL;

    uuid_format(&id, run);
    if (key == NULL) TRY(write_wanted(wish, hours, run, &asked, err));
    else {
        TRY(request(session, wish, hours, run, &payload, err));
        TRY(run_seal(key, RUN_REQUEST, buffer_bytes(&payload), &asked, err));
    }
    TRY(buffer_format(&path, err, "/projects/%s/%s", wish->project, key == NULL ? "run-requests" : "runs"));
    TRY(api_call_in(session, "POST", buffer_text(&path), asked, &answer, err));
    const char *answered = json_text_of(answer, "id");
    if (answered == NULL || strcmp(answered, run) != 0)
        return failure(err, ERROR_CORRUPT, "the registry answered with another run than %s, which was asked for", run);
    *answer_out = GIVE(answer);
    return SUCCESS;
}

/* Whether the stored login is a token of the registry: `sijil ci login`. */
static struct result has_token(const char *host, bool *has_out, struct error *err)
{
    struct host_login login = {0};
    const struct result found = host_login_find(host, &login, err);

    *has_out = found.ok && session_has_token(&login);
    explicit_bzero(&login, sizeof login);
    return found;
}

struct result run_signer(struct invocation *invocation, const char *host, struct ecdsa_key **key_out, struct error *err)
{
    const bool has_key = invocation_option(invocation, 'k') != NULL || invocation_option(invocation, 'P') != NULL;
    bool by_token = invocation_option(invocation, 't') != NULL;

    if (has_key && by_token)
        return line_check(invocation, failure(err, ERROR_INVALID, "--by-token asks without a key: leave out --key and --pkcs11"));
    if (!has_key && !by_token) TRY(has_token(host, &by_token, err));
    if (!has_key && !by_token)
        return line_check(invocation, failure(err, ERROR_INVALID,
                                              "one of --key, the file of a private key, --pkcs11, a key in a token, and "
                                              "--by-token, for the token of the login, is needed"));
    if (!by_token) return command_signer(invocation, key_out, err);
    if (!invocation->json)
        (void)fprintf(stderr, "asking by the token of the login: sijil-keyd signs the request for it (--key signs with a key)\n");
    *key_out = NULL;
    return SUCCESS;
}

/* ---- what was signed ---- */

struct result run_signed(const json_t *run, enum run_type type, struct run_envelope **envelope_out, struct error *err)
{
    const json_t *list = json_object_get(run, "envelopes");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        const char *kind = json_text_of(row, "kind"), *text = json_text_of(row, "envelope");
        if (kind == NULL || text == NULL || strcmp(kind, run_type_name(type)) != 0) continue;
        return run_envelope_read(bytes_of_text(text), type, envelope_out, err);
    }
    *envelope_out = NULL;
    return SUCCESS;
}

struct result run_signed_request(const json_t *run, const struct run_address *address, struct run_envelope **request_out,
                                 struct error *err)
{
    OWNED(run_envelope) *request = NULL;

    TRY(run_signed(run, RUN_REQUEST, &request, err));
    if (request == NULL) return failure(err, ERROR_INVALID, "the registry answered without the request of the run");
    if (strcmp(run_text(request, "run"), address->run) != 0 || strcmp(run_text(request, "project"), address->project) != 0)
        return failure(err, ERROR_CORRUPT, "the registry answered with the request of another run");
    *request_out = GIVE(request);
    return SUCCESS;
}

/* ---- approving, cancelling ---- */

/* No request is signed unseen: the command names its digest, or a person says yes to the shown request. */
static struct result agree(struct invocation *invocation, const struct run_envelope *asked, struct error *err)
{
    const char *seen = invocation_option(invocation, 'r');

    if (seen != NULL && strcmp(seen, asked->digest) == 0) return SUCCESS;
    if (seen != NULL)
        return failure(err, ERROR_INVALID, "nothing was signed: the run's request is %s, and not %.80s", asked->digest, seen);
    if (!invocation->json && terminal_is_there())
        return terminal_confirm("Approve exactly this? Type yes", "nothing was signed", err);
    return failure(err, ERROR_INVALID,
                   "nothing was signed: read the request (sijil run show), then name its digest: --request %s", asked->digest);
}

static struct result approve(struct invocation *invocation, struct session *session, const struct run_address *address,
                             const struct run_envelope *asked, const struct ecdsa_key *key, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(RUN_PATH_MAX), payload = BUFFER(RUN_PAYLOAD_MAX);
    OWNED_JSON envelope = NULL;
    OWNED_JSON answer = NULL;
    struct run_head head;

    TRY(run_head_make(session, LIFE_DEFAULT, &head, err));
    if (strcmp(head.audience, run_text(asked, "audience")) != 0)
        return failure(err, ERROR_CORRUPT, "the request is for the registry %.100s; this one is %.100s",
                       run_text(asked, "audience"), head.audience);
    const struct run_approval_parts parts = {head.principal, head.nonce, head.issued_ms, head.expires_ms};
    TRY(run_approval_write(asked, &parts, &payload, err));
    TRY(run_seal(key, RUN_APPROVAL, buffer_bytes(&payload), &envelope, err));
    TRY(run_path(address, "/approvals", &path, err));
    TRY(api_call_in(session, "POST", buffer_text(&path), envelope, &answer, err));
    return run_print(invocation, address, answer, err);
}

struct result command_run_approve(struct invocation *invocation, struct error *err)
{
    OWNED(run_envelope) *asked = NULL;
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON run = NULL;
    struct run_address address;

    TRY(run_address_of(invocation, &address, err));
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, address.host, &session, err));
    TRY(run_read(session, &address, &run, err));
    TRY(run_signed_request(run, &address, &asked, err));
    if (!invocation->json) {
        run_show_people(json_object_get(run, "people"), stderr);
        TRY(run_show_request(asked, stderr, err));
    }
    TRY(agree(invocation, asked, err));
    return approve(invocation, session, &address, asked, key, err);
}

struct result command_run_cancel(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(RUN_PATH_MAX);
    struct run_address address;

    TRY(run_address_of(invocation, &address, err));
    TRY(run_path(&address, "", &path, err));
    TRY(api_call(invocation, "DELETE", buffer_text(&path), NULL, NULL, err));
    if (!invocation->json) (void)printf("%s is cancelled\n", address.run);
    return SUCCESS;
}
