/* GET, HEAD and DELETE of blobs (OCI Distribution Specification, "Pulling blobs", "Deleting Blobs"). */
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "gateway/http/condition.h"
#include "gateway/http/range.h"
#include "gateway/oci/oci_priv.h"
#include "gateway/pipeline/run_gate.h"
#include "registry/held_checkpoint.h"
#include "registry/stored_blob.h"

static struct result target_blob(struct request *request, enum action action)
{
    struct digest digest;
    struct error wrong = {0};

    if (!digest_parse(bytes_of_text(request->reference), &digest, &wrong).ok)
        return oci_refuse(request, 400, "DIGEST_INVALID", wrong.message);
    struct resource *resource = oci_target(request, action);
    if (resource == NULL) return SUCCESS;
    digest_format(&digest, resource->detail);
    if (action == ACTION_BLOB_READ || action == ACTION_BLOB_STAT) oci_read_nearest(request, resource);
    oci_add_place(request);
    return SUCCESS;
}

/* HEAD asks whether the blob exists, which is an action other than reading it. */
static enum action action_of(const struct request *request)
{
    return oci_reading(request, request->method == METHOD_HEAD ? ACTION_BLOB_STAT : ACTION_BLOB_READ);
}

struct result target_blob_read(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    return target_blob(request, action_of(request));
}

struct result target_blob_delete(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    return target_blob(request, ACTION_BLOB_DELETE);
}

/* A blob that is sent: `first` is the position in it where the answer begins. */
struct sent_blob {
    struct stored_blob *blob;
    struct passing *passing; /* from another gateway; NULL: from a region of this one */
    uint64_t first;
    struct passing_part part;
    bool is_part;
};

static struct result read_blob(void *state, uint64_t offset, uint8_t *destination, size_t length, struct error *err)
{
    const struct sent_blob *sent = state;

    return stored_blob_read(sent->blob, sent->first + offset, destination, length, err);
}

static bool read_blob_cached(void *state, uint64_t offset, uint8_t *destination, size_t length)
{
    const struct sent_blob *sent = state;

    return stored_blob_read_cached(sent->blob, sent->first + offset, destination, length);
}

static struct result read_passed(void *state, uint64_t offset, uint8_t *destination, size_t length, struct error *err)
{
    const struct sent_blob *sent = state;

    return passing_read(sent->passing, offset, destination, length, err);
}

static void close_blob(void *state)
{
    const struct sent_blob *sent = state;

    passing_free(sent->passing);
    stored_blob_free(sent->blob);
}

static void describe(struct request *request, const char *digest)
{
    response_header(request, "Docker-Content-Digest", "%s", digest);
    response_header(request, "ETag", "\"%s\"", digest);
    response_header(request, "Accept-Ranges", "bytes");
    response_header(request, "Cache-Control", "private, max-age=31536000, immutable");
}

static bool is_answered_by_condition(struct request *request, const struct stored_blob *blob)
{
    char etag[OCI_ETAG_SIZE];

    oci_etag(request->reference, "", etag);
    if (!oci_is_answered_by_condition(request, etag, stored_blob_size(blob))) return false;
    if (request->response->status == 304) describe(request, request->reference); /* a 412 must not be cached for a year */
    return true;
}

static struct result refuse_range(struct request *request, uint64_t size)
{
    (void)oci_refuse(request, 416, "RANGE_INVALID", "the blob has no such bytes").ok;
    response_header(request, "Content-Range", "bytes */%" PRIu64, size);
    return SUCCESS;
}

static bool is_read_elsewhere(const struct request *request)
{
    return request->method == METHOD_GET && oci_is_passed_on(request, oci_where(request)->region);
}

static struct result answer_from(struct request *request, const struct sent_blob *sent, const struct response_source *source)
{
    const struct passing_part *part = &sent->part;

    response_from_source(request, sent->is_part ? 206 : 200, "application/octet-stream", source);
    describe(request, request->reference);
    if (sent->is_part)
        response_header(request, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, part->first,
                        part->first + part->length - 1, part->size);
    return SUCCESS;
}

/* Where it may wait for the other gateway. */
static struct result answer_elsewhere(struct request *request, struct error *err)
{
    struct sent_blob *sent = request->handler_state;
    struct work_pool *threads = passings_threads(request->gateway->passings);
    const struct response_source source = {
        .state = sent, .read = read_passed, .close = close_blob, .length = sent->part.length, .senders = threads};

    const struct result passed = oci_pass_on(request, &sent->part, &sent->passing, err);
    if (passed.ok && request->response == NULL) return answer_from(request, sent, &source);
    stored_blob_free(sent->blob);
    return passed.ok ? SUCCESS : oci_fail(request, "BLOB_UNKNOWN", err);
}

/* Takes over the blob. */
static struct result answer(struct request *request, struct stored_blob *blob, struct error *err)
{
    const uint64_t size = stored_blob_size(blob);
    struct sent_blob *sent = arena_take(request->arena, sizeof *sent);
    struct range range = {0};
    char etag[OCI_ETAG_SIZE];

    oci_etag(request->reference, "", etag);
    const enum range_kind kind =
        request->method == METHOD_GET ? range_of_request(request->method, &request->headers, size, etag, &range) : RANGE_WHOLE;
    if (sent == NULL || kind == RANGE_UNSATISFIABLE) {
        stored_blob_free(blob);
        return sent == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for an answer") : refuse_range(request, size);
    }
    *sent = (struct sent_blob){.blob = blob, .first = kind == RANGE_PART ? range.first : 0, .is_part = kind == RANGE_PART};
    sent->part = (struct passing_part){sent->first, kind == RANGE_PART ? range.last - range.first + 1 : size, size};
    if (is_read_elsewhere(request)) {
        request->handler_state = sent;
        request->rest = answer_elsewhere;
        return SUCCESS;
    }
    const struct response_source source = {
        .state = sent, .read = read_blob, .read_cached = read_blob_cached, .close = close_blob, .length = sent->part.length};
    return answer_from(request, sent, &source);
}

/* Of a run that continues from a checkpoint: the blob is held, so nobody else finds it. */
static bool is_of_checkpoint(const struct request *request)
{
    return request->run != NULL && request->run->checkpoint[0] != '\0';
}

/* Reads the row in the transaction of the record: the row is as fresh as in a later read, and the read needs no connection of its
 * own. */
static struct change *search(struct request *request)
{
    const struct resource *where = oci_where(request);

    request->handler_state = NULL; /* of an earlier decision that was stale */
    if (oci_is_probe(request) || is_of_checkpoint(request) || uuid_is_nil(&where->repository)) return NULL;
    struct blob_search *search = arena_take(request->arena, sizeof *search);
    if (search == NULL) return NULL;
    blob_search_prepare(request->gateway->registry, action_of(request), where, request->reference, search);
    request->handler_state = search;
    return &search->change;
}

static struct blob_query query_of(const struct request *request)
{
    return (struct blob_query){.action = action_of(request),
                               .where = oci_where(request),
                               .digest = request->reference,
                               .search = request->handler_state};
}

static struct result find(const struct request *request, struct pg *pg, struct stored_blob **blob_out, struct error *err)
{
    struct registry *registry = request->gateway->registry;
    struct blob_query query = query_of(request);

    query.also_held = is_of_checkpoint(request);
    if (query.also_held) {
        const struct manifest_query checkpoint = {ACTION_RUN_FETCH, query.where, request->run->checkpoint,
                                                  &request->run->holder.run, false};
        TRY(held_checkpoint_has(request->permit, registry, pg, &checkpoint, query.digest, err));
    }
    return stored_blob_find(request->permit, registry, pg, &query, blob_out, err);
}

static bool fast_path(struct request *request)
{
    const struct blob_query query = query_of(request);
    OWNED(stored_blob) *blob = NULL;
    struct error ignored = {0};

    if (oci_is_probe(request) || is_read_elsewhere(request) ||
        !stored_blob_open_cached(request->permit, request->gateway->registry, &query, &blob))
        return false;
    return is_answered_by_condition(request, blob) || answer(request, GIVE(blob), &ignored).ok;
}

/* The copy is not made yet: the gateway of the home region has the content. */
static bool find_at_home(struct request *request, struct pg *pg, struct stored_blob **blob_out, const struct error *why)
{
    struct error ignored = {0};

    return why->kind == ERROR_NOT_FOUND && request->reads_copy && oci_decide_for(request, request->home_region) &&
           find(request, pg, blob_out, &ignored).ok;
}

/* The copy is not made yet: the content may well be there, so "not there" would be false. */
static struct result fail_to_find(struct request *request, struct error *err)
{
    if (err->kind != ERROR_NOT_FOUND || !request->reads_copy) return oci_fail(request, "BLOB_UNKNOWN", err);
    return failure(err, ERROR_UNAVAILABLE, "the home region can't be read now, and %.63s has no copy of this blob yet",
                   oci_where(request)->region);
}

/* The home blob is damaged: a sound copy is read in its place, decided and recorded about the region of the copy. NULL: there is none, or none that the client may
 * read. HEAD still says "not there", so that a push repairs what is at home. */
static void read_copy(struct request *request, struct pg *pg, struct stored_blob **blob_out)
{
    struct oci_copies copies = {.count = 0};
    struct action_pair pair = request->pairs[0];
    struct error ignored = {0};

    *blob_out = NULL;
    while (*blob_out == NULL && oci_next_copy(request, &copies, &pair.resource)) {
        if (!request_record_instead(request, &pair, 1, NULL, &ignored).ok) continue;
        request->handler_state = NULL; /* what was searched is at home */
        OWNED(stored_blob) *blob = NULL;
        if (find(request, pg, &blob, &ignored).ok && !stored_blob_is_damaged(blob)) *blob_out = GIVE(blob);
    }
    if (*blob_out != NULL) registry_count_rescued();
}

static bool may_read_copy(const struct request *request)
{
    return request->method == METHOD_GET && !request->reads_copy && request->pairs[0].action == ACTION_BLOB_READ;
}

static struct result read(struct request *request, struct pg *pg, struct error *err)
{
    OWNED(stored_blob) *blob = NULL, *copy = NULL;

    if (oci_is_probe(request))
        return oci_refuse(request, 404, "BLOB_UNKNOWN", "you may push here, and not read: push it without asking");
    if (!find(request, pg, &blob, err).ok && !find_at_home(request, pg, &blob, err)) return fail_to_find(request, err);
    if (is_answered_by_condition(request, blob)) return SUCCESS;
    const bool is_damaged = stored_blob_is_damaged(blob) && !(request->method == METHOD_GET && stored_blob_is_sound_now(blob));
    if (is_damaged && may_read_copy(request)) read_copy(request, pg, &copy);
    if (copy != NULL)
        return stored_blob_open(copy, err).ok ? answer(request, GIVE(copy), err) : oci_fail(request, "BLOB_UNKNOWN", err);
    if (is_damaged) return oci_refuse(request, 404, "BLOB_UNKNOWN", "the stored bytes are damaged: push the blob again");
    if (request->method == METHOD_GET && !is_read_elsewhere(request) && !stored_blob_open(blob, err).ok)
        return oci_fail(request, "BLOB_UNKNOWN", err);
    return answer(request, GIVE(blob), err);
}

static struct result delete (struct request *request, struct pg *pg, struct error *err)
{
    struct blob_unlink unlink;
    char etag[OCI_ETAG_SIZE];

    (void)pg;
    oci_etag(request->reference, "", etag); /* if the blob is here, it has this entity tag: the tag is made of the digest */
    if (condition_of_request(&request->headers, etag) != CONDITIONS_HOLD)
        return oci_refuse(request, 412, "PRECONDITION_FAILED", "If-Match or If-None-Match does not hold");
    blob_unlink_prepare(oci_where(request), request->reference, &unlink);
    if (!request_record(request, &unlink.change, err).ok) return oci_fail_to_delete(request, "BLOB_UNKNOWN", err);
    response_empty(request, 202);
    return SUCCESS;
}

const struct handler handler_blob_read = {.handle = read,
                                          .instead = oci_probe_instead,
                                          .search = search,
                                          .fast_path = fast_path,
                                          .decides_on_event_thread = true,
                                          .takes_passed = true};
const struct handler handler_blob_delete = {.handle = delete, .takes_passed = true, .passes_on = true};
