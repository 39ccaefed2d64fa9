#include "registry/copies/copy_fetch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "crypto/certificate.h"
#include "outgoing/call.h"

#define CONNECT_S    5
#define SILENCE_S    30
#define SLOWEST_RATE 1024 /* bytes a second; object stores have the same */
#define URI_PREFIX   "sijil:region:"
#define REFUSAL_MAX  ((uint64_t)4096) /* bytes of an answer without content */

struct fetching {
    struct copy_fetch *fetch;
    uint64_t taken;
    size_t said; /* bytes of `text` */
};

/* For the log and for people: letters alone. */
static void take_text(struct fetching *fetching, struct bytes piece)
{
    char *text = fetching->fetch->text;

    for (size_t i = 0; i < piece.length && fetching->said + 1 < sizeof fetching->fetch->text; i++)
        if (piece.data[i] >= ' ' && piece.data[i] <= '~') text[fetching->said++] = (char)piece.data[i];
    text[fetching->said] = '\0';
}

static struct result take(void *context, long status, struct bytes piece, struct error *err)
{
    struct fetching *fetching = context;
    const struct copy_fetch *fetch = fetching->fetch;

    if (status != (fetch->offset > 0 ? 206 : 200)) {
        if (status >= 400) take_text(fetching, piece); /* another answer may be content */
        return SUCCESS;
    }
    if (piece.length > fetch->length - fetch->offset - fetching->taken)
        return failure(err, ERROR_CORRUPT, "the gateway of %.63s sends more than the blob has", fetch->peer->region);
    fetching->taken += piece.length;
    return fetch->take(fetch->context, piece, err);
}

/* Each gateway has a certificate of the same authority: only that of the home region may say that it has no such blob, or that it is damaged. */
static bool is_of_region(void *context, struct bytes pem)
{
    const struct fetching *fetching = context;
    char uri[sizeof URI_PREFIX + PEER_NAME_MAX];
    struct error ignored;
    bool is_it = false;

    (void)snprintf(uri, sizeof uri, URI_PREFIX "%s", fetching->fetch->peer->region);
    return certificate_has_uri(pem, uri, &is_it, &ignored).ok && is_it;
}

static struct result refused(struct copy_fetch *fetch, const struct outgoing_outcome *outcome, struct error *err)
{
    const enum error_kind kind = outcome->status == 404   ? ERROR_CONFLICT
                                 : outcome->status == 422 ? ERROR_CORRUPT
                                                          : ERROR_UNAVAILABLE;

    fetch->refusal = fetch->text;
    return failure(err, kind, "the gateway of %.63s answers %ld: %.120s", fetch->peer->region, outcome->status, fetch->text);
}

static struct result conclude(const struct fetching *fetching, const struct outgoing_outcome *outcome, struct error *err)
{
    struct copy_fetch *fetch = fetching->fetch;

    if (outcome->end != OUTGOING_ANSWERED)
        return failure(err, ERROR_UNAVAILABLE, "the gateway of %.63s: %.150s", fetch->peer->region, outcome->reason);
    if (outcome->status != (fetch->offset > 0 ? 206 : 200)) return refused(fetch, outcome, err);
    if (fetching->taken == fetch->length - fetch->offset) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "the gateway of %.63s has sent too little", fetch->peer->region);
}

struct result copy_fetch(struct copy_fetch *fetch, struct error *err)
{
    const uint64_t left = fetch->length - fetch->offset;
    struct fetching fetching = {.fetch = fetch};
    struct outgoing_outcome outcome;
    char url[PEER_URL_SIZE + COPY_REQUEST_SIZE], target[COPY_REQUEST_SIZE], range[48];

    copy_request_write(fetch->request, target);
    (void)snprintf(url, sizeof url, "%s%s", fetch->peer->url, target);
    (void)snprintf(range, sizeof range, "bytes=%" PRIu64 "-", fetch->offset);
    const struct outgoing_header headers[] = {{"Range", range}};
    const struct outgoing_request request = {.method = "GET",
                                             .url = url,
                                             .headers = headers,
                                             .header_count = fetch->offset > 0 ? 1 : 0,
                                             .limits = {.connect_s = CONNECT_S,
                                                        .silence_s = SILENCE_S,
                                                        .slowest_rate = SLOWEST_RATE,
                                                        .answer_bytes = left < REFUSAL_MAX ? REFUSAL_MAX : left},
                                             .gives_up = fetch->gives_up,
                                             .knows = is_of_region,
                                             .take = take,
                                             .context = &fetching};
    fetch->refusal = NULL;
    fetch->text[0] = '\0';
    TRY(outgoing_call(fetch->outgoing, &request, &outcome, err));
    return conclude(&fetching, &outcome, err);
}
