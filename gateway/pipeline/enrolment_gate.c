#include "gateway/pipeline/enrolment_gate.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "crypto/runner_certificate.h"
#include "crypto/runner_code.h"
#include "documents/invitation_find.h"
#include "documents/view.h"
#include "gateway/pipeline/document.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/runner_gate.h"
#include "policy/decider/decider.h"

#define ABOUT_MAX 160 /* a code, a blank, "sha256:" and 64 digits */

static void refuse(struct authentication *found, enum oauth_error error, const char *why)
{
    *found = (struct authentication){.error = error};
    (void)snprintf(found->description, sizeof found->description, "%s", why);
}

static struct runner_proof proof_of(const struct request *request, const json_t *body, const char *purpose, const char *about)
{
    return (struct runner_proof){
        .purpose = purpose, .audience = request->gateway->origin, .issued_at = json_text_of(body, "issued_at"), .about = about};
}

/* The time is in the proof, so a proof that somebody has kept ends soon. */
static bool is_recent(const json_t *body, int64_t now_ms)
{
    int64_t issued_ms = 0;

    if (!clock_parse(bytes_of_text(json_text_of(body, "issued_at")), &issued_ms)) return false;
    return issued_ms >= now_ms - ENROLMENT_PROOF_MS && issued_ms <= now_ms + ENROLMENT_PROOF_MS;
}

#define NOT_RECENT "the proof of the key is older or newer than five minutes: is the clock of the runner right?"

/* ---- attempts ---- */

struct
try {
    struct attempts *attempts;
    struct attempts_who who;
    unsigned wait_s;
    bool is_counted;
};

static struct try begin_try(struct request *request, const struct credential *credential, const char *name)
{
    struct try try = {.attempts = authenticator_attempts(request->gateway->authenticator),
                      .who = {.client = credential->client, .name = bytes_of_text(name)}};

    try.is_counted = attempts_begin(try.attempts, &try.who, clock_monotonic_ms(), &try.wait_s);
    return try;
}

/* Beyond the limit, a wrong secret and any other reason look the same. */
static void end_try(struct try *try, bool was_right, struct authentication *found)
{
    if (was_right) {
        if (try->is_counted) attempts_reset(try->attempts, &try->who, clock_monotonic_ms());
        return;
    }
    if (try->is_counted) return;
    refuse(found, OAUTH_TOO_MANY, "too many wrong codes and proofs came from your network; Retry-After says when to come again");
    found->wait_s = try->wait_s;
}

/* ---- the code of an invitation ---- */

struct result enrolment_body(struct request *request, const struct signed_body **body_out, struct error *err)
{
    TRY(request_envelope_member(request, "envelope", body_out, err));
    if ((*body_out)->document->kind == DOCUMENT_RUNNER && !(*body_out)->document->is_withdrawn) return SUCCESS;
    return failure(err, ERROR_INVALID, "envelope: the enrolment of a runner is expected");
}

/* The invitation of this code; NULL with the reason in `found`. The times of both comparisons don't depend on the secret. */
static struct result find_invitation(struct request *request, struct pg *pg, const struct credential *credential,
                                     struct found_invitation *invitation, struct authentication *found, struct error *err)
{
    const json_t *body = NULL;
    struct runner_code code = {{{0}}, {0}};
    uint8_t hash[sizeof invitation->code];
    char runner[UUID_TEXT_SIZE];

    TRY(request_document(request, &body, err));
    const bool is_code = runner_code_read(bytes_of_text(json_text_of(body, "code")), &code);
    uuid_format(&code.runner, runner);
    struct try try = begin_try(request, credential, runner);
    TRY(invitation_find(pg, &code.runner, invitation, err));
    runner_code_hash(&code, hash);
    secret_wipe(&code, sizeof code);
    const bool is_right = bytes_equal_secret((struct bytes){hash, sizeof hash}, (struct bytes){invitation->code, sizeof hash}) &&
                          is_code && invitation->invitation != NULL;
    if (!is_right) {
        refuse(found, OAUTH_INVALID_TOKEN, "the code is wrong, or its invitation has ended: ask for another one");
        runner_invitation_free(GIVE(invitation->invitation));
    }
    end_try(&try, is_right, found);
    return SUCCESS;
}

/* Whoever wrote the row: what counts is who has signed its envelope, for this registry. */
static struct result check_invitation(struct request *request, const struct runner_invitation *invitation,
                                      struct authentication *found, struct error *err)
{
    struct document_trust trust = {.now_ms = clock_wall_ms()};
    uint8_t signer[ECDSA_PUBLIC_SIZE];
    struct keyd_documents pinned;
    struct error why = {0};

    TRY(keyd_ask_documents(request->gateway->keyd, &pinned, err));
    memcpy(trust.root, pinned.root, sizeof trust.root);
    memcpy(trust.approvers, pinned.approvers, sizeof trust.approvers);
    if (strcmp(invitation->audience, request->gateway->origin) != 0)
        refuse(found, OAUTH_INVALID_TOKEN, "the invitation is for another registry");
    else if (!runner_invitation_signer(invitation, &trust, signer, &why).ok) {
        if (why.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "%s", why.message);
        refuse(found, OAUTH_INVALID_TOKEN, why.message);
    }
    return SUCCESS;
}

/* The document of the body must be the one that the invitation and the key give. */
static struct result check_document(struct request *request, const struct found_invitation *invitation, int64_t now_ms,
                                    struct authentication *found, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER((size_t)16 * 1024);
    const struct signed_body *body = NULL;
    struct runner_key key;
    bool is_signed = false;

    TRY(enrolment_body(request, &body, err));
    TRY(runner_key_read(body->document, &key, err));
    TRY(runner_invitation_document(invitation->invitation, key.point, &payload, err));
    TRY(document_is_signed_by(body->document, key.point, &is_signed, err));
    const bool is_same = bytes_equal(buffer_bytes(&payload), document_payload(body->document));
    if (!is_same || !is_signed)
        refuse(found, OAUTH_INVALID_TOKEN, "the document is not the one of the invitation, or its own key has not signed it");
    else if (invitation->is_used && memcmp(invitation->digest, body->document->digest, sizeof invitation->digest) != 0)
        refuse(found, OAUTH_INVALID_TOKEN, "the code was used already, for another key: ask for another one");
    else if (now_ms >= invitation->expires_ms || now_ms >= invitation->invitation->expires_ms)
        refuse(found, OAUTH_INVALID_TOKEN, "the code has expired: ask for another one");
    return SUCCESS;
}

/* The document says that its key is the caller's. The proof says so for this registry, this code and this moment. */
static struct result check_proof(struct request *request, int64_t now_ms, struct authentication *found, struct error *err)
{
    const struct signed_body *signed_body = NULL;
    char about[ABOUT_MAX], digest[2 * DOCUMENT_DIGEST_SIZE + 1];
    const json_t *body = NULL;
    struct error why = {0};
    struct runner_key key;

    TRY(request_document(request, &body, err));
    TRY(enrolment_body(request, &signed_body, err));
    TRY(runner_key_read(signed_body->document, &key, err));
    text_hex(signed_body->document->digest, DOCUMENT_DIGEST_SIZE, digest);
    (void)snprintf(about, sizeof about, "%s sha256:%s", json_text_of(body, "code"), digest);
    const struct runner_proof proof = proof_of(request, body, "enrolment", about);
    const struct result checked = runner_proof_check(&proof, key.point, json_text_of(body, "proof"), &why);
    secret_wipe(about, sizeof about);
    if (!checked.ok && why.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "%s", why.message);
    if (!checked.ok) refuse(found, OAUTH_INVALID_TOKEN, why.message);
    else if (!is_recent(body, now_ms)) refuse(found, OAUTH_INVALID_TOKEN, NOT_RECENT);
    return SUCCESS;
}

/* The organisation may have been deleted since, and another one may have its name. */
static void fill(struct request *request, const struct found_invitation *invitation, struct authentication *found)
{
    const struct runner_invitation *signed_one = invitation->invitation;
    struct principal *principal = &found->principal;
    struct resource resource = {.kind = RESOURCE_SYSTEM};
    char runner[UUID_TEXT_SIZE];

    if (signed_one->scope[0] != '\0') decider_resolve(request->gateway->decider, signed_one->scope, &resource);
    if (!uuid_equal(&resource.organisation, &invitation->organisation) ||
        (signed_one->scope[0] != '\0') != !uuid_is_nil(&resource.organisation)) {
        refuse(found, OAUTH_INVALID_TOKEN, "the organisation of this invitation was deleted");
        return;
    }
    principal->kind = PRINCIPAL_RUNNER;
    principal->id = signed_one->runner;
    principal->organisation = resource.organisation;
    principal->expires_ms = signed_one->expires_ms;
    principal_key(principal, principal->subject);
    uuid_format(&signed_one->runner, runner);
    (void)snprintf(principal->source, sizeof principal->source, "code:%s", runner);
}

static struct result check_all(struct request *request, const struct found_invitation *invitation, int64_t now_ms,
                               struct authentication *found, struct error *err)
{
    TRY(check_invitation(request, invitation->invitation, found, err));
    if (found->error == OAUTH_NONE) TRY(check_document(request, invitation, now_ms, found, err));
    if (found->error == OAUTH_NONE) TRY(check_proof(request, now_ms, found, err));
    if (found->error == OAUTH_NONE) fill(request, invitation, found);
    request->is_repeated = invitation->is_used;
    return SUCCESS;
}

struct result enrolment_authenticate(struct request *request, struct pg *pg, const struct credential *credential,
                                     struct authentication *found, struct error *err)
{
    struct found_invitation invitation = {.invitation = NULL};

    *found = (struct authentication){.error = OAUTH_NONE};
    if (credential->authorization != NULL) {
        refuse(found, OAUTH_INVALID_REQUEST, "the code in the body is the credential: send no other one");
        return SUCCESS;
    }
    TRY(find_invitation(request, pg, credential, &invitation, found, err));
    if (invitation.invitation == NULL) return SUCCESS;
    const struct result checked = check_all(request, &invitation, credential->now_ms, found, err);
    runner_invitation_free(invitation.invitation);
    return checked;
}

/* ---- the key of a runner that is enrolled ---- */

/* *claimed_out: the key and the runner of the body. False: they have another form. */
static bool read_claim(const json_t *body, struct runner_certificate *claimed_out)
{
    claimed_out->not_after_ms = INT64_MAX;
    return uuid_parse(bytes_of_text(json_text_of(body, "runner")), &claimed_out->runner) &&
           text_from_base64_exactly(BASE64_URL, bytes_of_text(json_text_of(body, "key")), claimed_out->point,
                                    sizeof claimed_out->point);
}

static struct result check_key(struct request *request, const json_t *body, const struct runner_certificate *claimed,
                               int64_t now_ms, struct authentication *found, struct error *err)
{
    char name[ECDSA_THUMBPRINT_SIZE];
    struct error why = {0};

    ecdsa_thumbprint(claimed->point, name);
    const struct runner_proof proof = proof_of(request, body, "certificate", name);
    if (!runner_proof_check(&proof, claimed->point, json_text_of(body, "proof"), &why).ok) {
        if (why.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "%s", why.message);
        refuse(found, OAUTH_INVALID_TOKEN, why.message);
    } else if (!is_recent(body, now_ms)) refuse(found, OAUTH_INVALID_TOKEN, NOT_RECENT);
    return SUCCESS;
}

static struct result note_known(void *context, const struct pinned_document *pinned, struct error *err)
{
    (void)pinned, (void)err;
    *(bool *)context = true;
    return SUCCESS;
}

/* In memory: sijil-keyd is not asked. Anybody can prove a key of its own, and wait for an approval that does not come. */
static bool is_known(const struct request *request, const struct runner_certificate *claimed)
{
    char name[ECDSA_THUMBPRINT_SIZE];
    struct error ignored = {0};
    bool is_there = false;

    ecdsa_thumbprint(claimed->point, name);
    return document_view_visit_name(request->gateway->documents, DOCUMENT_RUNNER, name, note_known, &is_there, &ignored).ok &&
           is_there;
}

struct result enrolment_key_authenticate(struct request *request, struct pg *pg, const struct credential *credential,
                                         struct authentication *found, struct error *err)
{
    struct runner_certificate *claimed = arena_take(request->arena, sizeof *claimed);
    const json_t *body = NULL;

    *found = (struct authentication){.error = OAUTH_NONE};
    if (claimed == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a runner");
    *claimed = (struct runner_certificate){.not_before_ms = 0};
    TRY(request_document(request, &body, err));
    if (credential->authorization != NULL || !read_claim(body, claimed)) {
        refuse(found, OAUTH_INVALID_REQUEST,
               "key and runner: a point of P-256 in base64url, and a UUID; and no other credential");
        return SUCCESS;
    }
    struct try try = begin_try(request, credential, json_text_of(body, "runner"));
    TRY(check_key(request, body, claimed, credential->now_ms, found, err));
    if (found->error == OAUTH_NONE && (try.is_counted || is_known(request, claimed)))
        TRY(runner_authenticate_claimed(request, pg, claimed, credential->now_ms, found, err));
    end_try(&try, found->principal.kind != PRINCIPAL_NONE, found);
    return SUCCESS;
}
