/* Requests of runs that keyd signs for the subject of a token. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "keyd/run_sign_priv.h"
#include "keyd/token_check.h"
#include "training/format/compose.h"

#define PROJECT_SIZE (KEYD_NAME_MAX + 1)

/* The values of a request, as texts. */
struct texts {
    char run[UUID_TEXT_SIZE], rerun_run[UUID_TEXT_SIZE], rerun_order[RUN_DIGEST_TEXT], nonce[33], project[PROJECT_SIZE];
};

static void write_texts(const struct keyd_run_request *wanted, struct texts *texts)
{
    *texts = (struct texts){.rerun_order = "sha256:"};
    uuid_format(&wanted->run, texts->run);
    uuid_format(&wanted->rerun_run, texts->rerun_run);
    text_hex(wanted->rerun_order, sizeof wanted->rerun_order, texts->rerun_order + strlen(texts->rerun_order));
    (void)snprintf(texts->project, sizeof texts->project, "%.*s", (int)wanted->project.length,
                   (const char *)wanted->project.data);
}

static struct result write_request(const struct signing *signing, const struct keyd_run_request *wanted,
                                   const struct token_holder *holder, struct buffer *payload, struct error *err)
{
    const struct run_claims claims = {holder->issuer, holder->subject, holder->digest};
    OWNED_JSON spec = NULL;
    struct texts texts;

    TRY(json_read(wanted->spec, KEYD_SPEC_MAX, &spec, err));
    write_texts(wanted, &texts);
    if (strlen(texts.project) != wanted->project.length) return failure(err, ERROR_INVALID, "the project has a NUL in its name");
    text_hex(signing->promise.nonce, sizeof signing->promise.nonce, texts.nonce);
    const struct run_request_parts parts = {.run = texts.run,
                                            .audience = signing->signer->origin,
                                            .project = texts.project,
                                            .requester = holder->requester,
                                            .nonce = texts.nonce,
                                            .issued_ms = signing->promise.from_ms,
                                            .expires_ms = signing->promise.until_ms,
                                            .claims = &claims,
                                            .rerun_run = wanted->is_rerun ? texts.rerun_run : NULL,
                                            .rerun_order = wanted->is_rerun ? texts.rerun_order : NULL,
                                            .spec = spec};
    return run_request_write(&parts, payload, err);
}

/* Nothing below it: the new envelope alone. */
static struct result check_made(const struct signing *signing, struct error *err)
{
    const struct run_chain chain = {.request = signing->owned[0]};

    return run_chain_check(&chain, err);
}

static void set_life(struct signing *signing, const struct keyd_run_request *wanted, const struct token_holder *holder)
{
    const int64_t now_ms = signing->signer->now_ms, life_ms = (int64_t)wanted->lifetime_s * 1000;

    signing->promise.from_ms = now_ms;
    signing->promise.until_ms = now_ms + (life_ms < RUN_LIFE_MAX_MS ? life_ms : RUN_LIFE_MAX_MS);
    signing->promise.keep_ms = signing->promise.until_ms + ADMISSION_WAIT_MS; /* so long there is no other request of the run */
    signing_set_share(signing, wanted->project);
    signing->promise.principal = run_ledger_share(bytes_of_text(holder->requester));
    signing->promise.is_request = true;
}

struct result run_sign_request(const struct run_signer *signer, const struct keyd_run_request *wanted, struct buffer *envelope,
                               struct error *err)
{
    OWNED_SIGNING signing = {.signer = signer, .type = RUN_REQUEST, .json = json_object()};
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX), made = BUFFER(RUN_ENVELOPE_MAX);
    const struct token_use use = {wanted->issuer, wanted->audience, wanted->subject_issuer, signer->now_ms / 1000};
    char run[UUID_TEXT_SIZE];
    struct token_holder holder;

    if (signing.json == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a request of a run");
    TRY(token_check(signer->tokens, signer->token_count, wanted->token, &use, &holder, err));
    if (wanted->lifetime_s == 0) return failure(err, ERROR_INVALID, "a request of a run lives at least one second");
    uuid_format(&wanted->run, run);
    signing_subject(&signing, run, 0, 0);
    if (!signing.is_again) set_life(&signing, wanted, &holder);
    TRY(write_request(&signing, wanted, &holder, &payload, err));
    TRY(signing_add(&signing, buffer_bytes(&payload), &made, err));
    TRY(check_made(&signing, err));
    return signing_release(&signing, &made, envelope, err);
}
