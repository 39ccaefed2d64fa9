#include "runner/serve/signatures.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "training/format/compose.h"

static void name_lease(const struct taken_lease *lease, char run_out[UUID_TEXT_SIZE], char digest_out[RUN_DIGEST_TEXT])
{
    (void)snprintf(digest_out, RUN_DIGEST_TEXT, "sha256:");
    text_hex(lease->digest, sizeof lease->digest, digest_out + strlen("sha256:"));
    uuid_format(&lease->run, run_out);
}

static struct result sign(const struct runner_state *state, enum run_type type, const struct buffer *payload,
                          char envelope_out[CHANNEL_ENVELOPE_SIZE], struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(CHANNEL_ENVELOPE_SIZE - 1);

    TRY(run_sign(type, buffer_bytes(payload), state->key, &envelope, err));
    (void)snprintf(envelope_out, CHANNEL_ENVELOPE_SIZE, "%s", buffer_text(&envelope));
    return SUCCESS;
}

/* The clock of sijil-keyd, which made the lease, may be ahead of this machine's. */
struct result signatures_certify(const struct runner_state *state, const struct taken_lease *lease,
                                 const struct channel_question *question, char envelope_out[CHANNEL_ENVELOPE_SIZE],
                                 struct error *err)
{
    const int64_t now_ms = clock_wall_ms();
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX);
    char run[UUID_TEXT_SIZE], digest[RUN_DIGEST_TEXT];
    struct run_certificate_parts parts = {.run = run,
                                          .audience = state->registry.audience,
                                          .order = question->order,
                                          .lease = digest,
                                          .attempt = lease->attempt,
                                          .node = lease->node,
                                          .not_before_ms = now_ms > lease->begins_ms ? now_ms : lease->begins_ms,
                                          .expires_ms = lease->expires_ms};

    name_lease(lease, run, digest);
    ecdsa_key_public(state->key, parts.runner);
    memcpy(parts.key, question->key, sizeof parts.key);
    TRY(run_certificate_write(&parts, &payload, err));
    return sign(state, RUN_CERTIFICATE, &payload, envelope_out, err);
}

struct result signatures_refuse(const struct runner_state *state, const struct channel_question *question,
                                char envelope_out[CHANNEL_ENVELOPE_SIZE], struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX);
    char run[UUID_TEXT_SIZE], digest[RUN_DIGEST_TEXT];
    const struct run_refusal_parts parts = {.run = run,
                                            .audience = question->audience,
                                            .lease = digest,
                                            .check = question->check,
                                            .reason = question->reason,
                                            .at_ms = clock_wall_ms()};

    name_lease(&question->lease, run, digest);
    TRY(run_refusal_write(&parts, &payload, err));
    return sign(state, RUN_REFUSAL, &payload, envelope_out, err);
}
