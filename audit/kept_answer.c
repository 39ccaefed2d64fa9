#include "audit/kept_answer.h"

#include <string.h>

#include "audit/event_priv.h"
#include "audit/kept_answer_priv.h"
#include "audit/subject_priv.h"
#include "crypto/aead.h"
#include "crypto/random.h"

#define LABEL         "sijil-kept-v1"
#define LABEL_REQUEST "sijil-kept-request-v1"

/* An answer that was moved to another row does not open. */
struct place {
    uint8_t bytes[2 * SHA256_SIZE];
};

static struct place place_of(const struct kept_request *request, const uint8_t stored[SHA256_SIZE])
{
    struct place place;

    memcpy(place.bytes, request->name, SHA256_SIZE);
    memcpy(place.bytes + SHA256_SIZE, stored, SHA256_SIZE);
    return place;
}

static const char *issuer_of(const struct kept_request *request)
{
    return request->issuer[0] == '\0' ? REGISTRY_ISSUER : request->issuer;
}

static struct result index_of(struct keyd_client *keyd, const struct kept_request *request, uint8_t index_out[32],
                              struct error *err)
{
    return keyd_subject_index(keyd, issuer_of(request), request->subject, index_out, err);
}

static struct result find_key(const struct search_source *source, const struct kept_request *request, bool makes,
                              struct secret **key_out, struct error *err)
{
    const char *const names[2] = {issuer_of(request), request->subject};

    return subject_key_find(source->keyd, source->pg, names, makes, key_out, err);
}

struct result kept_request_seal(const struct search_source *source, struct kept_request *request, struct error *err)
{
    OWNED(secret) *key = NULL;

    TRY(find_key(source, request, true, &key, err));
    return subject_box_key(key, request->digest, LABEL_REQUEST, request->request, err);
}

/* Rows of a version that stored the digest end within a day. */
static bool is_of(const struct pg_rows *rows, const struct kept_request *request)
{
    const struct bytes found = pg_bytes(rows, 0, 0);

    return found.length == SHA256_SIZE &&
           (memcmp(found.data, request->request, SHA256_SIZE) == 0 || memcmp(found.data, request->digest, SHA256_SIZE) == 0);
}

struct result kept_answer_find(const struct search_source *source, const struct kept_request *request, enum kept_state *state_out,
                               struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    uint8_t subject[32];

    TRY(index_of(source->keyd, request, subject, err));
    TRY(kept_select(source->pg, subject, request, &rows, err));
    if (pg_rows_count(rows) == 0) *state_out = KEPT_NOT;
    else if (!is_of(rows, request)) *state_out = KEPT_OTHER;
    else if (!pg_is_null(rows, 0, 2)) *state_out = KEPT_ANSWER;
    else *state_out = pg_bool(rows, 0, 3) ? KEPT_COMING : KEPT_UNKNOWN;
    return SUCCESS;
}

static struct result open_row(const struct search_source *source, const struct kept_request *request, const struct pg_rows *rows,
                              struct buffer *answer, struct error *err)
{
    const struct bytes salt = pg_bytes(rows, 0, 1), box = pg_bytes(rows, 0, 2);
    const struct place place = place_of(request, pg_bytes(rows, 0, 0).data);
    uint8_t opening[XCHACHA_KEY_SIZE], *destination = NULL;
    OWNED(secret) *key = NULL;

    if (salt.length != 32 || box.length <= BOX_OVERHEAD || box.length - BOX_OVERHEAD > KEPT_ANSWER_MAX)
        return failure(err, ERROR_NOT_FOUND, "the kept answer has a wrong size");
    TRY(buffer_reserve(answer, box.length - BOX_OVERHEAD, &destination, err));
    TRY(find_key(source, request, false, &key, err));
    TRY(subject_box_key(key, salt.data, LABEL, opening, err));
    const bool is_open = box_open(opening, (struct bytes){place.bytes, sizeof place.bytes}, box, destination, err).ok;
    secret_wipe(opening, sizeof opening);
    if (!is_open) return failure(err, ERROR_NOT_FOUND, "the kept answer does not open");
    answer->length += box.length - BOX_OVERHEAD;
    return SUCCESS;
}

struct result kept_answer_open(const struct permit *permit, const struct search_source *source,
                               const struct kept_request *request, struct buffer *answer, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    uint8_t subject[32];

    (void)permit;
    TRY(index_of(source->keyd, request, subject, err));
    TRY(kept_select(source->pg, subject, request, &rows, err));
    if (pg_rows_count(rows) == 0 || !is_of(rows, request))
        return failure(err, ERROR_NOT_FOUND, "no answer is kept under this key");
    return open_row(source, request, rows, answer, err);
}

struct result kept_answer_keep(const struct permit *permit, const struct search_source *source,
                               const struct kept_request *request, struct bytes answer, struct error *err)
{
    struct buffer OWNED_BUFFER box = BUFFER(KEPT_ANSWER_MAX + BOX_OVERHEAD);
    const struct place place = place_of(request, request->request);
    uint8_t sealing[XCHACHA_KEY_SIZE], salt[32], subject[32], *destination = NULL;
    OWNED(secret) *key = NULL;

    (void)permit;
    if (answer.length == 0 || answer.length > KEPT_ANSWER_MAX)
        return failure(err, ERROR_LIMIT, "an answer that is kept has 1 to %d bytes", KEPT_ANSWER_MAX);
    TRY(index_of(source->keyd, request, subject, err));
    TRY(buffer_reserve(&box, answer.length + BOX_OVERHEAD, &destination, err));
    random_bytes(salt, sizeof salt);
    TRY(find_key(source, request, false, &key, err));
    TRY(subject_box_key(key, salt, LABEL, sealing, err));
    box_seal(sealing, (struct bytes){place.bytes, sizeof place.bytes}, answer, destination);
    secret_wipe(sealing, sizeof sealing);
    box.length = answer.length + BOX_OVERHEAD;
    return kept_fill(source->pg, subject, request, salt, buffer_bytes(&box), err);
}

/* ---- the change ---- */

/*
 * If the key was used, the work behind it is not begun. The row comes last, because a change that fails before it touched a row costs its group nothing.
 */
static struct result run_kept(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct kept_change *kept = (struct kept_change *)change; /* its first member */
    struct change *inner = kept->inner;
    OWNED(pg_rows) *rows = NULL;
    bool is_new = false;

    TRY(kept_select(pg, kept->subject, kept->request, &rows, err));
    kept->was_there = pg_rows_count(rows) > 0;
    if (kept->was_there) return failure(err, ERROR_CONFLICT, "the key was used meanwhile");
    TRY(inner->run(permit, inner, pg, err));
    TRY(kept_claim(pg, kept->subject, kept->request, &is_new, err));
    kept->was_there = !is_new;
    if (!is_new) return failure(err, ERROR_CONFLICT, "the key was used meanwhile");
    change->detail = inner->detail;
    change->concerns_issuer = inner->concerns_issuer;
    change->concerns_subject = inner->concerns_subject;
    return SUCCESS;
}

struct result kept_change_init(struct kept_change *change, struct keyd_client *keyd, const struct kept_request *request,
                               struct change *inner, struct error *err)
{
    *change = (struct kept_change){.change = *inner, .inner = inner, .request = request};
    change->change.run = run_kept;
    change->change.add = NULL;
    change->change.add_all = NULL;
    change->change.take = NULL;
    return index_of(keyd, request, change->subject, err);
}
