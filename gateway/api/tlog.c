/* /audit/: the log as foreign programs walk it, by C2SP tlog-tiles (docs/audit.md, "Walking the log"); and the checkpoints that were published. */
#include <stdio.h>
#include <string.h>

#include "audit/cosigned.h"
#include "audit/published.h"
#include "audit/sequencer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/keyd_client.h"
#include "gateway/api/api_priv.h"
#include "gateway/background/witness_feed.h"

#define NOTE_TYPE      "text/plain; charset=utf-8"
#define PROOF_TEXT_MAX ((size_t)20 << 10) /* 63 hashes and a note */

PART(cosignature, "the cosignature of a witness", HAS_TEXT("witness", REQUIRED, FORM_FREE, 1, 255, "the name of its key"),
     HAS_TIME("at", REQUIRED, "when it saw the log"))
SCHEMA(checkpoint, "a checkpoint of the log", HAS_COUNT("size", REQUIRED, "the number of entries"),
       HAS_TEXT("note", REQUIRED, FORM_FREE, 1, 12288,
                "the signed note; with the cosignatures, if a quorum has cosigned this size"),
       HAS_TIME("stored_at", REQUIRED, "when it was stored"),
       HAS_LIST("cosignatures", REQUIRED, WITNESS_POLICY_WITNESSES_MAX, schema_cosignature,
                "of the witnesses of the policy; empty without a policy, and for a size that no quorum has cosigned"))

SCHEMA(checkpoints, "a page of checkpoints",
       HAS_LIST("checkpoints", REQUIRED, 1000, schema_checkpoint, "in the order that was asked for"), HAS_NEXT)

struct result target_checkpoint_read(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    (void)api_pair(request, ACTION_CHECKPOINT_READ, RESOURCE_SYSTEM, "");
    return SUCCESS;
}

static struct result target_tile(struct request *request, enum action action, const char *path)
{
    struct error wrong = {0};
    struct tile_name name;

    if (path == NULL || !tile_name_read(path, &name, &wrong).ok) {
        response_unknown(request);
        return SUCCESS;
    }
    struct resource *resource = api_pair(request, action, RESOURCE_SYSTEM, "");
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", path);
    return SUCCESS;
}

struct result target_tile_read(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return target_tile(request, ACTION_TILE_READ, request->name);
}

static const char *path_of_bundle(const struct request *request)
{
    return arena_format(request->arena, "entries/%s", request->name);
}

struct result target_entries_read(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return target_tile(request, ACTION_ENTRIES_READ, path_of_bundle(request));
}

/*
 * The checkpoint may come from another gateway, which is a little ahead. So a tile beyond this gateway's newest checkpoint is looked for
 * under the newest one that sijil-keyd has signed.
 */
static struct result newest_with(const struct request *request, const struct tile_name *name,
                                 struct signed_checkpoint *newest_out, struct error *err)
{
    struct sequencer *sequencer = request->gateway->sequencer;
    struct keyd_identity identity;

    TRY(sequencer_checkpoint(sequencer, newest_out, err));
    if (tile_name_available(name, newest_out->size) >= name->width) return SUCCESS;
    TRY(keyd_identify(request->gateway->keyd, &identity, err));
    if (tile_name_available(name, identity.log_size) < name->width) return SUCCESS;
    TRY(sequencer_await_signed(sequencer, identity.log_size - 1, err));
    return sequencer_checkpoint(sequencer, newest_out, err);
}

/* Whoever keeps the answer needs no second one: a tile of this name never has other bytes. It is private, because it was decided. */
static void may_be_kept(struct request *request)
{
    response_header(request, "Cache-Control", "private, max-age=31536000, immutable");
}

static struct result handle_tile(struct request *request, struct pg *pg, struct error *err)
{
    struct merkle_hash hashes[TILE_WIDTH];
    struct signed_checkpoint newest;
    struct tile_name name;

    TRY(tile_name_read(request->name, &name, err));
    TRY(newest_with(request, &name, &newest, err));
    TRY(published_tile(request->permit, pg, &name, &newest, hashes, err));
    const size_t length = name.width * sizeof hashes[0];
    uint8_t *copy = arena_take(request->arena, length);
    if (copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a tile");
    memcpy(copy, hashes, length);
    response_bytes(request, 200, "application/octet-stream", (struct bytes){copy, length});
    may_be_kept(request);
    return SUCCESS;
}

/* ---- bundles: too large for the arena of a request ---- */

static struct result fill_bundle(struct request *request, struct pg *pg, struct buffer *bytes, struct error *err)
{
    struct signed_checkpoint newest;
    struct tile_name name;
    const char *path = path_of_bundle(request);

    if (path == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a bundle of entries");
    TRY(tile_name_read(path, &name, err));
    TRY(newest_with(request, &name, &newest, err));
    return published_entries(request->permit, pg, &name, &newest, bytes, err);
}

static struct result handle_entries(struct request *request, struct pg *pg, struct error *err)
{
    static const struct api_large bundle = {
        .what = "bundles of entries", .type = "application/octet-stream", .maximum = PUBLISHED_BUNDLE_MAX, .fill = fill_bundle};

    TRY(api_answer_large(request, pg, &bundle, err));
    if (request->response != NULL) may_be_kept(request);
    return SUCCESS;
}

/* ---- checkpoints ---- */

static struct result answer_note(struct request *request, const struct buffer *text, const char *kept, struct error *err)
{
    const char *copy = arena_copy_text(request->arena, buffer_bytes(text));

    if (copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    response_bytes(request, 200, NOTE_TYPE, (struct bytes){(const uint8_t *)copy, text->length});
    response_header(request, "Cache-Control", "%s", kept);
    return SUCCESS;
}

static struct result newest_cosigned(const struct request *request, struct signed_checkpoint *checkpoint_out, struct error *err)
{
    struct cosigned *cosigned = memory_zeroed(1, sizeof *cosigned); /* large for a stack */

    if (cosigned == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    const struct result found = witness_feed_newest(request->gateway->witness_feed, cosigned, err);
    if (found.ok) *checkpoint_out = cosigned->checkpoint;
    free(cosigned);
    return found;
}

struct result api_newest(const struct request *request, uint64_t size, struct signed_checkpoint *checkpoint_out,
                         struct error *err)
{
    struct error why = {0};

    if (request->gateway->witness_feed != NULL && newest_cosigned(request, checkpoint_out, &why).ok &&
        checkpoint_out->size >= size)
        return SUCCESS;
    return sequencer_checkpoint(request->gateway->sequencer, checkpoint_out, err);
}

/* From memory, because anyone with access to the database could write the table of checkpoints. With witnesses only cosigned checkpoints are
 * published here: what a client has seen, a witness has seen before. */
static struct result handle_newest(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(PROOF_TEXT_MAX);
    struct signed_checkpoint newest;

    (void)pg;
    (void)permit_resource(request->permit, ACTION_CHECKPOINT_READ);
    if (request->gateway->witness_feed != NULL) TRY(newest_cosigned(request, &newest, err));
    else TRY(sequencer_checkpoint(request->gateway->sequencer, &newest, err));
    TRY(buffer_add_text(&text, newest.note, err));
    return answer_note(request, &text, "no-cache", err);
}

static bool read_size(const char *text, uint64_t *size_out)
{
    return text != NULL && text_to_u64(bytes_of_text(text), MERKLE_SIZE_MAX, size_out);
}

static struct result cosigned_found(const struct request *request, struct pg *pg, const struct published_query *query,
                                    struct signed_checkpoint *checkpoint_out, struct error *err)
{
    struct cosigned *cosigned = memory_zeroed(1, sizeof *cosigned); /* large for a stack */

    if (cosigned == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    const struct result found =
        cosigned_of_size(request->permit, pg, query, witness_feed_policy(request->gateway->witness_feed), cosigned, err);
    if (found.ok) *checkpoint_out = cosigned->checkpoint;
    free(cosigned);
    return found;
}

struct result api_published(const struct request *request, struct pg *pg, enum action action, const char *size,
                            struct signed_checkpoint *checkpoint_out, struct error *err)
{
    struct published_query query = {.action = action, .keys = sequencer_log_keys(request->gateway->sequencer)};

    if (size == NULL) return api_newest(request, 0, checkpoint_out, err);
    if (!read_size(size, &query.size)) return failure(err, ERROR_INVALID, "the size of a log is a whole number");
    if (request->gateway->witness_feed != NULL) {
        const struct result found = cosigned_found(request, pg, &query, checkpoint_out, err);
        if (found.ok || err->kind != ERROR_NOT_FOUND) return found;
    }
    return published_checkpoint(request->permit, pg, &query, checkpoint_out, err);
}

/* Whoever has a root of an unpublished size, from a dump of the log, wants to know whether the signed log has it, too. */
static struct result find_old(const struct request *request, struct pg *pg, const char *text,
                              const struct signed_checkpoint *newer, struct signed_checkpoint *old_out, struct error *err)
{
    const struct result found = api_published(request, pg, ACTION_CHECKPOINT_READ, text, old_out, err);
    uint64_t size = 0;

    if (found.ok || err->kind != ERROR_NOT_FOUND || !read_size(text, &size) || size > newer->size) return found;
    return published_state_at(request->permit, pg, size, newer, old_out, err);
}

static struct result handle_consistency(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(PROOF_TEXT_MAX);
    const char *old_size = request_argument(request, "old");
    struct signed_checkpoint old, newer;

    if (old_size == NULL) return failure(err, ERROR_INVALID, "old is a smaller size of the log");
    TRY(api_published(request, pg, ACTION_CHECKPOINT_READ, request_argument(request, "size"), &newer, err));
    TRY(find_old(request, pg, old_size, &newer, &old, err));
    TRY(published_consistency(request->permit, pg, &(struct published_pair){&old, &newer}, &text, err));
    return answer_note(request, &text, "no-store", err);
}

static struct result add_cosignatures(const struct witness_policy *policy, const struct witness_verdict *verdict, json_t *list,
                                      struct error *err)
{
    for (size_t i = 0; i < policy->witness_count; i++) {
        if (verdict->times_s[i] == 0) continue;
        json_t *one = json_pack("{s:s}", "witness", policy->witnesses[i].key.name);
        if (one == NULL || !api_set_time(one, "at", (int64_t)verdict->times_s[i] * 1000) || json_array_append(list, one) != 0) {
            json_decref(one);
            return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
        }
        json_decref(one);
    }
    return SUCCESS;
}

/* What no quorum has cosigned is listed as it was signed. */
static struct result take_cosigned(const struct request *request, const struct published_row *row, const char **note_out,
                                   json_t *list, struct error *err)
{
    const struct log_keys *keys = sequencer_log_keys(request->gateway->sequencer);
    const struct witness_policy *policy = NULL;
    struct error why = {0};

    if (request->gateway->witness_feed == NULL || row->cosigned == NULL) return SUCCESS;
    struct cosigned *cosigned = memory_zeroed(1, sizeof *cosigned); /* large for a stack */
    if (cosigned == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    policy = witness_feed_policy(request->gateway->witness_feed);
    struct result added = SUCCESS;
    if (cosigned_read(keys, policy, bytes_of_text(row->cosigned), cosigned, &why).ok &&
        cosigned->checkpoint.size == row->checkpoint.size) {
        added = add_cosignatures(policy, &cosigned->verdict, list, err);
        *note_out = row->cosigned;
    }
    free(cosigned);
    return added;
}

/* Rows that sijil-keyd did not sign are left out. */
static struct result describe(struct request *request, const void *rows, size_t index, json_t **row_out, struct error *err)
{
    struct published_row row;
    OWNED_JSON cosignatures = json_array();

    published_page_row(rows, index, sequencer_log_keys(request->gateway->sequencer), &row);
    if (!row.is_signed) return SUCCESS;
    if (cosignatures == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    const char *note = row.checkpoint.note;
    TRY(take_cosigned(request, &row, &note, cosignatures, err));
    OWNED_JSON value =
        json_pack("{s:I, s:s, s:O}", "size", (json_int_t)row.checkpoint.size, "note", note, "cosignatures", cosignatures);
    if (value == NULL || !api_set_time(value, "stored_at", row.stored_ms))
        return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    *row_out = GIVE(value);
    return SUCCESS;
}

static void cursor(const void *rows, size_t index, char next_out[API_CURSOR_SIZE])
{
    (void)snprintf(next_out, API_CURSOR_SIZE, "%lld", (long long)published_page_id(rows, index));
}

static struct result read_time(const char *text, const char *what, int64_t *time_ms_out, struct error *err)
{
    *time_ms_out = 0;
    if (text == NULL || (clock_parse(bytes_of_text(text), time_ms_out) && *time_ms_out > 0)) return SUCCESS;
    return failure(err, ERROR_INVALID, "%s is a time such as 2026-11-20T10:39:46Z (RFC 3339)", what);
}

static struct result read_wish(const struct request *request, struct published_wish *wish, struct error *err)
{
    const char *entry = request_argument(request, "entry");

    *wish = (struct published_wish){.has_entry = entry != NULL};
    if (entry != NULL && !read_size(entry, &wish->entry)) return failure(err, ERROR_INVALID, "entry is the number of an entry");
    TRY(read_time(request_argument(request, "since"), "since", &wish->since_ms, err));
    return read_time(request_argument(request, "until"), "until", &wish->until_ms, err);
}

static struct result handle_history(struct request *request, struct pg *pg, struct error *err)
{
    OWNED(published_page) *page = NULL;
    struct published_span span = {.ascending = false};
    struct published_wish wish;
    struct api_page asked;

    if (!api_page(request, &asked)) return SUCCESS;
    TRY(read_wish(request, &wish, err));
    TRY(published_find(request->permit, pg, sequencer_log_keys(request->gateway->sequencer), &wish, &span.bounds, err));
    TRY(api_order(request, &span.ascending, err));
    TRY(api_after_number(&asked, &span.cursor, err));
    span.has_cursor = asked.after[0] != '\0';
    span.limit = asked.limit + 1;
    TRY(published_list(request->permit, pg, &span, &page, err));
    const size_t count = published_page_count(page);
    const struct api_list list = {.name = "checkpoints",
                                  .rows = page,
                                  .count = count < asked.limit ? count : asked.limit,
                                  .has_more = count > asked.limit,
                                  .describe = describe,
                                  .cursor = cursor};
    return api_answer_list(request, &list, err);
}

const struct handler handler_tile_read = {.handle = handle_tile};
const struct handler handler_entries_read = {.handle = handle_entries};
const struct handler handler_newest_checkpoint = {.handle = handle_newest};
const struct handler handler_consistency = {.handle = handle_consistency};
const struct handler handler_checkpoint_list = {.handle = handle_history};
