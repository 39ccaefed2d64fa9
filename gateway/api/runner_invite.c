/* /api/v1/runners/invitations: codes for new runners; docs/runner.md. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/runner_code.h"
#include "gateway/api/runner_priv.h"
#include "policy/decider/decider.h"
#include "registry/names/reference.h"

#define SKEW_MS 60000 /* between the clocks of a person's machine and of the gateway */

PART(invitation_signature, "one signature", HAS_TEXT("sig", REQUIRED, FORM_FREE, 1, 0, "ECDSA P-256 in DER, in base64"),
     HAS_TEXT("keyid", OPTIONAL, FORM_FREE, 0, 127, "the RFC 7638 thumbprint of the key that made it; not signed"))
SCHEMA(runner_invitation_wanted, "a signed invitation (docs/formats/documents.md, DSSE)",
       HAS_WORD("payloadType", REQUIRED, RUNNER_INVITATION_TYPE, "what the payload is"),
       HAS_TEXT("payload", REQUIRED, FORM_FREE, 1, 0, "the invitation in base64"),
       HAS_SOME("signatures", REQUIRED, 1, 1, schema_invitation_signature, "of the person that invites"))
PART(registry_keys, "the public keys of the registry",
     HAS_TEXT("audience", REQUIRED, FORM_FREE, 1, 127, "the name of the log, which signed requests name"),
     HAS_TEXT("log_key", REQUIRED, FORM_FREE, 1, 255, "the key of the log, as signed notes have it"),
     HAS_TEXT("signer", REQUIRED, FORM_FREE, 87, 87, "the key that signs orders, leases and admissions: base64url of the point"),
     HAS_TEXT("root", REQUIRED, FORM_FREE, 87, 87, "the key that signs policy sets: base64url of the point"))
SCHEMA_WITH(SCHEMA_HAS_SECRET, runner_code, "a code for one runner",
            HAS_ID("runner", REQUIRED, "the runner, as the invitation names it"),
            HAS_TEXT("code", REQUIRED, FORM_FREE, 68, 68, "the code; it is shown once, and used once"),
            HAS_TIME("expires", REQUIRED, "when it ends"),
            HAS_OBJECT("registry", REQUIRED, schema_registry_keys, "what the runner pins"))

/* ---- targets ---- */

static struct result read_invitation(struct request *request, struct buffer *envelope, struct runner_invitation **invitation_out,
                                     struct error *err)
{
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    TRY(json_write_canonical(envelope, body, err));
    return runner_invitation_read(buffer_bytes(envelope), invitation_out, err);
}

struct result target_runner_invite(struct request *request, struct lookup *lookup, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUNNER_INVITATION_MAX);
    OWNED(runner_invitation) *invitation = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_RUNNER_INVITE)) return SUCCESS;
    TRY(read_invitation(request, &envelope, &invitation, err));
    struct resource *resource = document_scope_pair(request, ACTION_RUNNER_INVITE, invitation->scope);
    if (resource == NULL) return failure(err, ERROR_INVALID, "scope: \"\" or an organisation");
    uuid_format(&invitation->runner, resource->detail);
    return SUCCESS;
}

struct result target_runner_uninvite(struct request *request, struct lookup *lookup, struct error *err)
{
    const char *scope = request_argument(request, "scope");
    struct resource *resource = document_scope_pair(request, ACTION_RUNNER_REJECT, scope == NULL ? "" : scope);
    struct uuid runner;

    (void)lookup, (void)err;
    if (resource == NULL || !uuid_parse(bytes_of_text(request->reference), &runner)) response_unknown(request);
    else uuid_format(&runner, resource->detail);
    return SUCCESS;
}

/* ---- checks ---- */

static struct result check_times(const struct runner_invitation *invitation, int64_t now_ms, struct error *err)
{
    if (invitation->issued_ms > now_ms + SKEW_MS || invitation->issued_ms < now_ms - SKEW_MS)
        return failure(err, ERROR_INVALID, "issued_at: within a minute of the registry's time: look at the clock");
    if (invitation->expires_ms > now_ms) return SUCCESS;
    return failure(err, ERROR_INVALID, "expires: the invitation has ended already");
}

/* A robot that is nobody can't invite: approvals compare persons. */
static struct result check_inviter(const struct request *request, const struct runner_invitation *invitation, struct error *err)
{
    const struct persons asking =
        decider_persons(request->gateway->decider, request->principal, &request->pairs[0].resource.organisation);
    uint8_t signer[ECDSA_PUBLIC_SIZE];
    struct document_trust trust;
    bool is_sender = false;

    if (!persons_are_known(&asking))
        return failure(err, ERROR_DENIED,
                       "a person invites a runner, and nobody is behind this robot (docs/identity.md, \"Persons\")");
    TRY(document_trust_now(request, &trust, err));
    TRY(runner_invitation_signer(invitation, &trust, signer, err));
    TRY(document_check_sender(request, signer, &trust, &is_sender, err));
    return is_sender ? SUCCESS : failure(err, ERROR_DENIED, DOCUMENT_SENT_BY_ANOTHER);
}

struct same_runner {
    const struct uuid *runner;
    bool is_there;
};

static struct result note_runner(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct same_runner *same = context;
    struct runner_key key;

    TRY(runner_key_read(pinned->document, &key, err));
    if (uuid_equal(&key.runner, same->runner)) same->is_there = true;
    return SUCCESS;
}

/* Results name a runner by its UUID. */
static struct result check_new(const struct request *request, struct pg *pg, const struct runner_invitation *invitation,
                               struct error *err)
{
    struct same_runner same = {.runner = &invitation->runner};

    TRY(document_refresh(request, pg, err));
    TRY(document_view_visit_all(request->gateway->documents, DOCUMENT_RUNNER, note_runner, &same, err));
    return same.is_there ? failure(err, ERROR_CONFLICT, "a runner with this UUID was enrolled: take a new one") : SUCCESS;
}

/* ---- inviting ---- */

static struct result describe_keys(const struct request *request, json_t **value_out, struct error *err)
{
    char signer[ECDSA_POINT_TEXT_SIZE], root[ECDSA_POINT_TEXT_SIZE];
    struct keyd_identity keys;

    TRY(keyd_identify(request->gateway->keyd, &keys, err));
    TRY(ecdsa_point_text(keys.document_public, signer, err));
    TRY(ecdsa_point_text(keys.approver_root, root, err));
    *value_out =
        json_pack("{s:s, s:s, s:s, s:s}", "audience", keys.origin, "log_key", keys.log_vkey, "signer", signer, "root", root);
    return *value_out != NULL ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for keys");
}

static struct result answer(struct request *request, const struct runner_code *code, int64_t expires_ms, json_t *keys,
                            struct error *err)
{
    char text[RUNNER_CODE_SIZE], runner[UUID_TEXT_SIZE];

    uuid_format(&code->runner, runner);
    runner_code_write(code, text);
    OWNED_JSON value = json_pack("{s:s, s:s, s:O}", "runner", runner, "code", text, "registry", keys);
    secret_wipe(text, sizeof text);
    if (value == NULL || !api_set_time(value, "expires", expires_ms))
        return failure(err, ERROR_NO_MEMORY, "no memory for a code");
    response_json(request, 201, value);
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

static struct result record(struct request *request, const struct runner_invitation *invitation, struct bytes envelope,
                            const struct runner_code *code, struct error *err)
{
    const struct uuid *organisation = &request->pairs[0].resource.organisation;
    char inviter[PRINCIPAL_KEY_SIZE];
    struct invitation_change change = {.action = ACTION_RUNNER_INVITE,
                                       .invitation = invitation,
                                       .envelope = envelope,
                                       .organisation = uuid_is_nil(organisation) ? NULL : organisation,
                                       .invited_by = inviter};

    principal_key(request->principal, inviter);
    runner_code_hash(code, change.code);
    invitation_change_init(&change);
    return request_record(request, &change.change, err);
}

static struct result handle_invite(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUNNER_INVITATION_MAX);
    OWNED(runner_invitation) *invitation = NULL;
    OWNED_JSON keys = NULL;

    TRY(read_invitation(request, &envelope, &invitation, err));
    if (strcmp(invitation->audience, request->gateway->origin) != 0)
        return failure(err, ERROR_INVALID, "audience: this registry is %.127s", request->gateway->origin);
    if (invitation->scope[0] != '\0' && uuid_is_nil(&request->pairs[0].resource.organisation))
        return failure(err, ERROR_NOT_FOUND, "there is no organisation %.63s", invitation->scope);
    TRY(check_times(invitation, clock_wall_ms(), err));
    TRY(check_inviter(request, invitation, err));
    TRY(check_new(request, pg, invitation, err));
    TRY(describe_keys(request, &keys, err)); /* before the record: a code that can't be answered would be lost */
    struct runner_code code = runner_code_new(&invitation->runner);
    struct result result = record(request, invitation, buffer_bytes(&envelope), &code, err);
    if (result.ok) result = answer(request, &code, invitation->expires_ms, keys, err);
    secret_wipe(&code, sizeof code);
    return result;
}

static struct result handle_uninvite(struct request *request, struct pg *pg, struct error *err)
{
    struct invitation_end change;
    struct uuid runner;

    (void)pg;
    TRY(api_id(request, "invitation", &runner, err));
    invitation_end_init(&change, ACTION_RUNNER_REJECT, request->pairs[0].resource.name, &runner);
    return api_remove(request, &change.change, err);
}

const struct handler handler_runner_invite = {.handle = handle_invite};
const struct handler handler_runner_uninvite = {.handle = handle_uninvite};
