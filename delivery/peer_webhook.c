/* Deliveries to a webhook: a POST of CloudEvents, signed as in Standard Webhooks 1.0. The answer 2xx takes the whole batch. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "delivery/peer_priv.h"
#include "delivery/secret.h"
#include "outgoing/call.h"

#define BODY_MAX       (2 * DELIVERY_BYTES_MAX)
#define SIGNED_MAX     (BODY_MAX + 512) /* id and time before it */
#define SIGNATURES_MAX 512              /* two signatures of 88 characters */
#define ID_SIZE        160
#define OLD_KEY_MS     ((int64_t)86400000) /* the key before signs for so long, too */
#define CONNECT_S      10
#define WHOLE_S        60
#define ANSWER_MAX     ((uint64_t)64 * 1024)

struct webhook {
    struct peer peer; /* first member */
    const struct peer_options *options;
    struct outgoing *outgoing;
    struct buffer body, text, signatures;
    unsigned wait_s;
};

static void take_head(void *context, struct bytes line)
{
    struct webhook *webhook = context;
    const unsigned wait_s = retry_after_of(line);

    if (wait_s > 0) webhook->wait_s = wait_s;
}

/* Only the status counts. */
static struct result take_body(void *context, long status, struct bytes piece, struct error *err)
{
    (void)context, (void)status, (void)piece, (void)err;
    return SUCCESS;
}

static struct result connect_nothing(struct peer *peer, bool *is_new_out, struct peer_outcome *outcome, struct error *err)
{
    (void)peer, (void)err;
    *is_new_out = false; /* a call that was answered is taken */
    outcome->is_taken = true;
    return SUCCESS;
}

/* ---- signatures ---- */

static struct result sign_with(struct webhook *webhook, int32_t number, struct error *err)
{
    const struct peer_options *options = webhook->options;
    const struct sink_key key = {options->name, number, options->sink->signs_ed25519};
    OWNED(secret) *secret = NULL;

    TRY(sink_secret_open(options->keyd, options->pg, &key, &secret, err));
    return sink_secret_sign(secret, key.signs_ed25519, buffer_bytes(&webhook->text), &webhook->signatures, err);
}

/* The message that is signed: id, time and body, with points between. */
static struct result sign(struct webhook *webhook, const struct sink_state *state, const char *id, const char *time,
                          struct error *err)
{
    const bool has_old = state->secret > 1 && clock_wall_ms() - state->renewed_ms < OLD_KEY_MS;

    buffer_clear(&webhook->text);
    buffer_clear(&webhook->signatures);
    TRY(buffer_format(&webhook->text, err, "%s.%s.", id, time));
    TRY(buffer_add(&webhook->text, webhook->body.data, webhook->body.length, err));
    TRY(sign_with(webhook, state->secret, err));
    return has_old ? sign_with(webhook, state->secret - 1, err) : SUCCESS;
}

/* ---- the call ---- */

static void judge(const struct webhook *webhook, const struct outgoing_outcome *answer, struct peer_outcome *outcome)
{
    outcome->wait_s = webhook->wait_s;
    outcome->is_taken = answer->end == OUTGOING_ANSWERED && answer->status >= 200 && answer->status <= 299;
    if (outcome->is_taken) return;
    if (answer->end == OUTGOING_ANSWERED) peer_refuse(outcome, "it answers with the status %ld", answer->status);
    else peer_refuse(outcome, "%s", answer->reason);
}

static struct result call(struct webhook *webhook, const struct outgoing_header *headers, size_t count,
                          struct peer_outcome *outcome, struct error *err)
{
    const struct outgoing_request request = {.method = "POST",
                                             .url = webhook->options->sink->address,
                                             .headers = headers,
                                             .header_count = count,
                                             .with_body = true,
                                             .body = buffer_bytes(&webhook->body),
                                             .limits = {.connect_s = CONNECT_S, .whole_s = WHOLE_S, .answer_bytes = ANSWER_MAX},
                                             .gives_up = webhook->options->gives_up,
                                             .head = take_head,
                                             .take = take_body,
                                             .context = webhook};
    struct outgoing_outcome answer;

    webhook->wait_s = 0;
    TRY(outgoing_call(webhook->outgoing, &request, &answer, err));
    judge(webhook, &answer, outcome);
    return SUCCESS;
}

/* The id is that of the range, so a batch that is sent again has the same one. */
static struct result send_batch(struct peer *peer, const struct delivery_batch *batch, const struct sink_state *state,
                                struct peer_outcome *outcome, struct error *err)
{
    struct webhook *webhook = (struct webhook *)peer; /* its first member */
    char id[ID_SIZE], time[24];

    if (state->secret == 0) {
        peer_refuse(outcome, "it has no key that signs yet: sijil admin sink secret");
        return SUCCESS;
    }
    (void)snprintf(id, sizeof id, "%.63s-%" PRIu64 "-%" PRIu64, webhook->options->name, batch->from, batch->next - 1);
    (void)snprintf(time, sizeof time, "%lld", (long long)(clock_wall_ms() / 1000));
    buffer_clear(&webhook->body);
    TRY(cloud_events_write(batch, webhook->options->origin, &webhook->body, err));
    TRY(sign(webhook, state, id, time, err));
    const struct outgoing_header headers[] = {{"Content-Type", "application/cloudevents-batch+json; charset=utf-8"},
                                              {"webhook-id", id},
                                              {"webhook-timestamp", time},
                                              {"webhook-signature", buffer_text(&webhook->signatures)}};
    return call(webhook, headers, sizeof headers / sizeof headers[0], outcome, err);
}

static void free_webhook(struct peer *peer)
{
    struct webhook *webhook = (struct webhook *)peer;

    outgoing_free(webhook->outgoing);
    buffer_done(&webhook->body);
    buffer_done(&webhook->text);
    buffer_done(&webhook->signatures);
    free(webhook);
}

struct result peer_webhook_new(const struct peer_options *options, struct peer **peer_out, struct error *err)
{
    OWNED(outgoing) *outgoing = NULL;

    TRY(peer_outgoing(options, &outgoing, err));
    struct webhook *webhook = memory_zeroed(1, sizeof *webhook);
    if (webhook == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a sink");
    *webhook = (struct webhook){.peer = {connect_nothing, send_batch, free_webhook},
                                .options = options,
                                .outgoing = GIVE(outgoing),
                                .body = BUFFER(BODY_MAX),
                                .text = BUFFER(SIGNED_MAX),
                                .signatures = BUFFER(SIGNATURES_MAX)};
    *peer_out = &webhook->peer;
    return SUCCESS;
}
