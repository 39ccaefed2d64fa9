#include "client/fetch.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/file.h"
#include "client/local.h"

#define ATTEMPTS_MAX 6 /* with waits of 1, 2, 4 ... 32 s */

static struct result take_piece(void *context, struct bytes piece, struct error *err)
{
    struct fetch *fetch = context;

    if (piece.length > fetch->size - fetch->offset)
        return failure(err, ERROR_CORRUPT, "%.100s: the registry sent more than %" PRIu64 " bytes", fetch->name, fetch->size);
    TRY(local(file_write_at(fetch->fd, piece.data, piece.length, fetch->offset, err), fetch->name, err));
    hasher_add(fetch->hasher, piece);
    fetch->offset += piece.length;
    if (fetch->progress != NULL) progress_set(fetch->progress, fetch->offset);
    return SUCCESS;
}

static struct result receive_rest(struct fetch *fetch, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER path = BUFFER(2048);
    char range[64];

    TRY(buffer_format(&path, err, "/v2/%s/blobs/%s", fetch->repository, fetch->digest));
    (void)snprintf(range, sizeof range, "bytes=%" PRIu64 "-", fetch->offset);
    const struct http_request request = {.method = "GET",
                                         .path = buffer_text(&path),
                                         .take = take_piece,
                                         .range = fetch->offset == 0 ? NULL : range,
                                         .context = fetch,
                                         .wanted = fetch->offset == 0 ? 200 : 206};
    return session_call(fetch->session, fetch->scope, &request, &response, err);
}

struct result fetch_blob(struct fetch *fetch, struct error *err)
{
    for (unsigned attempt = 0; fetch->offset < fetch->size || attempt == 0; attempt++) {
        const uint64_t before = fetch->offset;
        if (fetch->offset == fetch->size && fetch->size > 0) return SUCCESS;
        if (receive_rest(fetch, err).ok) return SUCCESS;
        if (err->kind != ERROR_UNAVAILABLE || attempt >= ATTEMPTS_MAX) return (struct result){.ok = false};
        session_pause(fetch->session, 1u << attempt, err);
        if (session_gives_up(fetch->session)) return (struct result){.ok = false};
        if (fetch->offset > before) attempt = 0;
    }
    return SUCCESS;
}

struct result fetch_check(const struct fetch *fetch, struct error *err)
{
    struct digest wanted;
    const struct digest got = hasher_digest(fetch->hasher);

    TRY(digest_parse(bytes_of_text(fetch->digest), &wanted, err));
    const bool is_same = digest_equal(&wanted, &got);
    if (fetch->offset == fetch->size && is_same) return SUCCESS;
    if (is_same)
        return failure(err, ERROR_CORRUPT,
                       "%.100s has %llu bytes and not %llu, as its manifest says: have it pushed with the right size",
                       fetch->name, (unsigned long long)fetch->offset, (unsigned long long)fetch->size);
    return failure(err, ERROR_CORRUPT, "%.100s does not match its digest %.80s; pull it again", fetch->name, fetch->digest);
}
