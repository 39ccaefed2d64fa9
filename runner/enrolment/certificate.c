#include "runner/enrolment/certificate.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/runner_code.h"
#include "documents/format/signing_key.h"

#define FIRST_WAIT_S   2
#define LONGEST_WAIT_S 60

static struct result keep(struct runner_state *state, const json_t *answer, struct error *err)
{
    const char *pem = json_text_of(answer, "certificate");

    if (pem == NULL) return failure(err, ERROR_INVALID, "the registry answered without 'certificate'");
    return runner_state_keep_certificate(state, bytes_of_text(pem), err);
}

static struct result prove(const struct runner_state *state, int64_t now_ms, json_t **body_out, struct error *err)
{
    char proof_text[RUNNER_PROOF_SIZE], issued[CLOCK_TEXT_SIZE], runner[UUID_TEXT_SIZE], key[ECDSA_POINT_TEXT_SIZE];
    uint8_t point[ECDSA_PUBLIC_SIZE];

    clock_format(now_ms, issued);
    uuid_format(&state->own.runner, runner);
    ecdsa_key_public(state->key, point);
    const struct runner_proof proof = {
        .purpose = "certificate", .audience = state->registry.audience, .issued_at = issued, .about = state->name};
    TRY(runner_proof_sign(&proof, state->key, proof_text, err));
    TRY(ecdsa_point_text(point, key, err));
    *body_out = json_pack("{s:s, s:s, s:s, s:s}", "runner", runner, "key", key, "issued_at", issued, "proof", proof_text);
    return *body_out != NULL ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for a proof");
}

struct result certificate_get(struct runner_state *state, int64_t now_ms, struct error *err)
{
    OWNED(http) *http = NULL;
    OWNED_JSON body = NULL;
    OWNED_JSON answer = NULL;

    TRY(prove(state, now_ms, &body, err));
    TRY(registry_connect(state, false, &http, err));
    TRY(registry_post(http, "/runner/enrolment/certificate", body, &answer, err));
    return keep(state, answer, err);
}

/* ---- waiting for the approval ---- */

static void pause_for(unsigned seconds, const volatile sig_atomic_t *cancelled)
{
    const struct timespec tenth = {.tv_nsec = 100000000};

    for (unsigned passed = 0; passed < 10 * seconds && *cancelled == 0; passed++) (void)nanosleep(&tenth, NULL);
}

/* Whether a later try may succeed, because the approval may come, or the registry may answer again. */
static bool may_come(const struct runner_state *state, const struct error *err)
{
    if (err->kind != ERROR_DENIED && err->kind != ERROR_UNAVAILABLE) return false;
    return clock_wall_ms() < state->document->effective_ms + SIGNING_KEY_WAIT_MS;
}

/* A denial is what is expected until then. */
static void tell(const struct certificate_waiting *waiting, const struct error *why)
{
    char text[sizeof why->message + 64];

    (void)snprintf(text, sizeof text, "%s%s", why->kind == ERROR_DENIED ? "it waits for its approval; the registry says: " : "",
                   why->message);
    waiting->tell(text);
}

struct result certificate_wait(struct runner_state *state, const struct certificate_waiting *waiting, bool *is_there_out,
                               struct error *err)
{
    struct error told = {0};
    unsigned wait_s = FIRST_WAIT_S;

    while (!certificate_get(state, clock_wall_ms(), err).ok) {
        if (!may_come(state, err)) return (struct result){.ok = false};
        if (strcmp(err->message, told.message) != 0) tell(waiting, err);
        told = *err;
        pause_for(wait_s, waiting->cancelled);
        if (*waiting->cancelled != 0) break;
        wait_s = wait_s * 2 > LONGEST_WAIT_S ? LONGEST_WAIT_S : wait_s * 2;
    }
    *is_there_out = *waiting->cancelled == 0;
    return SUCCESS;
}

/* ---- the next one ---- */

/* A third of the certificate's life or less is left, or there is none. */
static bool is_due(const struct runner_state *state, int64_t now_ms)
{
    const int64_t life_ms = state->certificate_until_ms - state->certificate_from_ms;

    return state->certificate_until_ms - now_ms <= life_ms / 3;
}

static struct result get_next(struct runner_state *state, struct error *err)
{
    OWNED(http) *http = NULL;
    OWNED_JSON body = json_object();
    OWNED_JSON answer = NULL;

    if (body == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a request");
    TRY(registry_connect(state, true, &http, err));
    TRY(registry_post(http, "/runner/certificate", body, &answer, err));
    return keep(state, answer, err);
}

struct result runner_renew(struct runner_state *state, int64_t now_ms, bool *renewed_out, struct error *err)
{
    const bool is_over = state->certificate_until_ms <= now_ms;

    *renewed_out = false;
    if (!is_due(state, now_ms)) return SUCCESS;
    TRY(is_over ? certificate_get(state, now_ms, err) : get_next(state, err));
    *renewed_out = true;
    return SUCCESS;
}
