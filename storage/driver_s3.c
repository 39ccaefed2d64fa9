#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "storage/driver_s3_priv.h"

/* ---- The bucket's location ---- */

/* ERROR_INVALID, as a check of the configuration reports it: the configuration can't be right. */
static struct result refuse(const struct s3_driver *s3, const char *found, struct error *err)
{
    return failure(
        err, ERROR_INVALID,
        "region %.63s may be in %.40s alone (bucket_location), but bucket %.63s is %s%.40s: nothing is read or written there",
        s3->region, s3->location, s3->bucket, found[0] == '\0' ? "elsewhere" : "in ", found);
}

struct result s3_ask_location(struct s3_driver *s3, char location_out[S3_LOCATION_SIZE], struct error *err)
{
    const struct s3_request request = {.method = "GET", .key = "", .query = {{"location", ""}}, .query_count = 1};
    OWNED_ANSWER answer = S3_ANSWER(S3_ANSWER_MAX);

    TRY(s3_call(s3->s3, &request, &answer, err));
    return s3_answer_location(buffer_bytes(&answer.body), location_out, err);
}

static struct result s3_check(struct driver *driver, struct error *err)
{
    struct s3_driver *s3 = s3_of(driver);
    char location[S3_LOCATION_SIZE];

    TRY(s3_reread_key(s3->s3, err));
    TRY(s3_ask_location(s3, location, err));
    const bool is_right = strcmp(location, s3->location) == 0;
    atomic_store(&s3->placement, is_right ? S3_IN_PLACE : S3_ELSEWHERE);
    return is_right ? SUCCESS : refuse(s3, location, err);
}

struct result s3_reach(struct s3_driver *s3, struct error *err)
{
    const int placement = atomic_load(&s3->placement);

    if (placement == S3_IN_PLACE) return SUCCESS;
    const struct result result = placement == S3_ELSEWHERE ? refuse(s3, "", err) : s3_check(&s3->driver, err);
    if (!result.ok && err->kind == ERROR_INVALID)
        err->kind = ERROR_UNAVAILABLE; /* for a client that requests a blob this is an outage */
    return result;
}

/* ---- Small objects ---- */

/* If the name is taken after several tries, the first try may have taken it. */
static struct result check_own(struct s3_driver *s3, const char *key, struct bytes content, struct error *err)
{
    struct buffer OWNED_BUFFER stored = BUFFER(content.length + 1);

    TRY(s3_get(s3, key, &stored, err));
    if (bytes_equal(buffer_bytes(&stored), content)) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "the name is taken by another object");
}

static struct result s3_small_put(struct driver *driver, const struct uuid *blob, const char *name, struct bytes content,
                                  struct error *err)
{
    struct s3_driver *s3 = s3_of(driver);
    OWNED_ANSWER answer = S3_ANSWER(S3_ANSWER_MAX);
    char key[S3_NAME_SIZE];

    TRY(s3_reach(s3, err));
    s3_name(s3, blob, name, key);
    const struct s3_request request = {.method = "PUT", .key = key, .body = content, .is_new = true};
    const struct result result = s3_call(s3->s3, &request, &answer, err);
    if (!result.ok && err->kind == ERROR_CONFLICT && answer.tries > 1) return check_own(s3, key, content, err);
    return result;
}

static struct result s3_small_get(struct driver *driver, const struct uuid *blob, const char *name, struct buffer *content,
                                  struct error *err)
{
    char key[S3_NAME_SIZE];

    TRY(s3_reach(s3_of(driver), err));
    s3_name(s3_of(driver), blob, name, key);
    return s3_get(s3_of(driver), key, content, err);
}

static struct result s3_small_remove(struct driver *driver, const struct uuid *blob, const char *name, struct error *err)
{
    char key[S3_NAME_SIZE];

    TRY(s3_reach(s3_of(driver), err));
    s3_name(s3_of(driver), blob, name, key);
    return s3_delete(s3_of(driver), key, err);
}

/* ---- Listing ---- */

/* "7" or "7.1": the number of the extent, and of its object. */
static bool parse_extent(const char *digits, uint32_t *part_out)
{
    const char *dot = strchr(digits, '.');
    const size_t length = dot == NULL ? strlen(digits) : (size_t)(dot - digits);
    uint64_t part = 0, segment = 0;

    if (!text_to_u64((struct bytes){(const uint8_t *)digits, length}, UINT32_MAX, &part)) return false;
    if (dot != NULL && !text_to_u64(bytes_of_text(dot + 1), UINT32_MAX, &segment)) return false;
    *part_out = (uint32_t)part;
    return true;
}

/* "ab/<32 hex digits>.e<extent>", with or without the segment, or "ab/<32 hex digits>.<name>"; false for a foreign object. */
static bool parse_key(const char *key, struct driver_entry *entry_out)
{
    struct driver_entry entry = {.part = 0};
    const size_t length = strlen(key);

    if (length <= 36 || key[2] != '/' || key[35] != '.' || memcmp(key, key + 3, 2) != 0 ||
        !text_from_hex((struct bytes){(const uint8_t *)key + 3, 32}, entry.blob.bytes, sizeof entry.blob.bytes))
        return false;
    const char *suffix = key + 36;
    entry.is_extent = suffix[0] == 'e' && parse_extent(suffix + 1, &entry.part);
    if (!entry.is_extent && strlen(suffix) > DRIVER_NAME_MAX) return false;
    if (!entry.is_extent) memcpy(entry.name, suffix, strlen(suffix));
    *entry_out = entry;
    return true;
}

struct listing {
    struct s3_driver *s3;
    driver_visit *visit;
    void *context;
};

static struct result visit_listed(void *context, const struct s3_listed *listed, struct error *err)
{
    const struct listing *listing = context;
    struct driver_entry entry;

    if (!parse_key(listed->key + strlen(listing->s3->prefix), &entry)) return SUCCESS;
    entry.size_bytes = listed->size_bytes;
    entry.modified_ms = listed->modified_ms;
    return listing->visit(listing->context, &entry, err);
}

struct question {
    const char *prefix;
    s3_listed_visit *visit;
    void *context;
};

/* A store may list more objects than the request names. That must not remove the bytes of another blob. */
static struct result visit_asked(void *context, const struct s3_listed *listed, struct error *err)
{
    const struct question *question = context;

    if (strncmp(listed->key, question->prefix, strlen(question->prefix)) != 0) return SUCCESS;
    return question->visit(question->context, listed, err);
}

static struct result list_page(struct s3_driver *s3, const char *prefix, s3_listed_visit *visit, void *context,
                               struct buffer *next, struct error *err)
{
    struct question question = {prefix, visit, context};
    OWNED_ANSWER answer = S3_ANSWER(S3_ANSWER_MAX);
    const struct s3_request request = {
        .method = "GET",
        .key = "",
        .query = {{"list-type", "2"}, {"max-keys", "1000"}, {"prefix", prefix}, {"continuation-token", buffer_text(next)}},
        .query_count = next->length == 0 ? 3 : 4};

    TRY(s3_call(s3->s3, &request, &answer, err));
    return s3_answer_page(buffer_bytes(&answer.body), visit_asked, &question, next, err);
}

static struct result s3_list(struct driver *driver, driver_visit *visit, void *context, struct error *err)
{
    struct s3_driver *s3 = s3_of(driver);
    struct listing listing = {s3, visit, context};
    struct buffer OWNED_BUFFER next = BUFFER(S3_TEXT_SIZE);

    TRY(s3_reach(s3, err));
    do TRY(list_page(s3, s3->prefix, visit_listed, &listing, &next, err));
    while (next.length > 0);
    return SUCCESS;
}

/* ---- Removing ---- */

struct removal {
    struct s3_driver *s3;
    const uint32_t *kept;
    size_t kept_count;
    struct buffer keys; /* removed after the page is read; each ends in '\0' */
};

static struct result abort_upload(void *context, const struct part_upload *upload, struct error *err)
{
    struct s3_driver *s3 = context;
    char key[S3_NAME_SIZE];

    s3_extent_key(s3, &upload->name, upload->segment, key);
    return s3_abort(s3, key, upload->upload_id, err);
}

static bool is_kept(const struct removal *removal, const struct driver_entry *entry)
{
    for (size_t i = 0; entry->is_extent && i < removal->kept_count; i++)
        if (removal->kept[i] == entry->part) return true;
    return false;
}

static struct result note_key(void *context, const struct s3_listed *listed, struct error *err)
{
    struct removal *removal = context;
    struct driver_entry entry;

    if (!parse_key(listed->key + strlen(removal->s3->prefix), &entry) || is_kept(removal, &entry)) return SUCCESS;
    return buffer_add(&removal->keys, listed->key, strlen(listed->key) + 1, err);
}

static struct result delete_noted(struct removal *removal, struct error *err)
{
    for (size_t at = 0; at < removal->keys.length; at += strlen((const char *)removal->keys.data + at) + 1)
        TRY(s3_delete(removal->s3, (const char *)removal->keys.data + at, err));
    buffer_clear(&removal->keys);
    return SUCCESS;
}

static struct result s3_remove(struct driver *driver, const struct uuid *blob, const uint32_t *kept_parts, size_t kept_count,
                               struct error *err)
{
    struct s3_driver *s3 = s3_of(driver);
    struct removal removal = {s3, kept_parts, kept_count, BUFFER(S3_ANSWER_MAX)};
    struct buffer OWNED_BUFFER next = BUFFER(S3_TEXT_SIZE);
    char prefix[S3_NAME_SIZE];
    struct result result;

    TRY(s3_reach(s3, err));
    TRY(part_list_uploads(s3->parts, blob, abort_upload, s3, err));
    TRY(part_list_forget_blob(s3->parts, blob, err));
    s3_name(s3, blob, "", prefix);
    do {
        result = list_page(s3, prefix, note_key, &removal, &next, err);
        if (result.ok) result = delete_noted(&removal, err);
    } while (result.ok && next.length > 0);
    buffer_done(&removal.keys);
    return result;
}

/* ---- The driver itself ---- */

static void s3_close(struct driver *driver)
{
    s3_free(s3_of(driver)->s3);
    part_list_free(s3_of(driver)->parts);
    free(s3_of(driver));
}

static const struct driver_operations s3_operations = {
    .kind = "s3",
    .is_flat = false,
    .extent_create = s3_extent_create,
    .extent_part = s3_extent_part,
    .extent_append = s3_extent_append,
    .extent_sync = s3_extent_sync,
    .extent_finish = s3_extent_finish,
    .extent_discard = s3_extent_discard,
    .extent_close = s3_extent_close,
    .part_open = s3_part_open,
    .part_size = s3_part_size,
    .part_read = s3_part_read,
    .part_ahead = s3_part_hint,
    .part_forget = s3_part_hint,
    .part_close = s3_part_close,
    .small_put = s3_small_put,
    .small_get = s3_small_get,
    .small_remove = s3_small_remove,
    .remove = s3_remove,
    .list = s3_list,
    .check = s3_check,
    .survey = s3_survey,
    .mark = s3_mark,
    .close = s3_close,
};

static struct result check_prefix(const char *prefix, struct error *err)
{
    const size_t length = strlen(prefix);

    if (length >= S3_PREFIX_SIZE || prefix[0] == '/' || (length > 0 && prefix[length - 1] != '/') ||
        prefix[strspn(prefix, "abcdefghijklmnopqrstuvwxyz0123456789-_/")] != '\0' || strstr(prefix, "//") != NULL)
        return failure(err, ERROR_INVALID, "prefix = %.60s: at most %d of a-z, 0-9, '-', '_' and '/', which it ends with", prefix,
                       S3_PREFIX_SIZE - 1);
    return SUCCESS;
}

struct result driver_s3_check(const struct driver_s3_options *options, struct error *err)
{
    TRY(check_prefix(options->prefix, err));
    return s3_check_options(&options->s3, err);
}

static struct result fill(struct s3_driver *s3, const struct driver_s3_options *options, struct error *err)
{
    s3->driver.operations = &s3_operations;
    s3->segment_bytes = options->segment_bytes == 0 ? DRIVER_S3_SEGMENT : options->segment_bytes;
    s3->part_bytes = options->part_bytes == 0 ? DRIVER_S3_PART : options->part_bytes;
    TRY(check_prefix(options->prefix, err));
    memcpy(s3->prefix, options->prefix, strlen(options->prefix) + 1);
    TRY(s3_new(&options->s3, &s3->s3, err));
    (void)snprintf(s3->region, sizeof s3->region, "%.63s", options->region);
    (void)snprintf(s3->bucket, sizeof s3->bucket, "%.63s", options->s3.bucket);
    (void)snprintf(s3->location, sizeof s3->location, "%.63s", options->s3.location);
    return part_list_new(options->database, &s3->parts, err);
}

NO_LEAK_BEGIN /* the caller owns the struct through its first member; s3_close() frees it */
    struct result
    driver_s3_open(const struct driver_s3_options *options, struct driver **driver_out, struct error *err)
{
    struct s3_driver *s3 = memory_zeroed(1, sizeof *s3);

    if (s3 == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a driver");
    const struct result result = fill(s3, options, err);
    if (result.ok) *driver_out = &s3->driver;
    else s3_close(&s3->driver);
    return result;
}
NO_LEAK_END
