#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "storage/driver_s3_priv.h"

#define COMPLETION_MAX (3u << 20) /* 10,000 parts with an etag of 128 characters */

/* ---- Names ---- */

void s3_name(const struct s3_driver *s3, const struct uuid *blob, const char *suffix, char name_out[S3_NAME_SIZE])
{
    char digits[33];

    text_hex(blob->bytes, sizeof blob->bytes, digits);
    (void)snprintf(name_out, S3_NAME_SIZE, "%s%.2s/%s.%s", s3->prefix, digits, digits, suffix);
}

void s3_extent_key(const struct s3_driver *s3, const struct extent_name *name, uint32_t segment, char key_out[S3_NAME_SIZE])
{
    char suffix[S3_SUFFIX_SIZE];

    if (segment == 0) (void)snprintf(suffix, sizeof suffix, "e%" PRIu32, name->extent);
    else (void)snprintf(suffix, sizeof suffix, "e%" PRIu32 ".%" PRIu32, name->extent, segment);
    s3_name(s3, &name->blob, suffix, key_out);
}

void s3_spill_key(const struct s3_driver *s3, const struct extent_name *name, const struct part_piece *piece,
                  char key_out[S3_NAME_SIZE])
{
    char suffix[S3_SUFFIX_SIZE];

    (void)snprintf(suffix, sizeof suffix, "s%08" PRIx32 "%016" PRIx64 "%08" PRIx64, name->extent, piece->offset,
                   piece->size_bytes);
    s3_name(s3, &name->blob, suffix, key_out);
}

/* ---- Objects ---- */

struct result s3_put(struct s3_driver *s3, const char *key, struct bytes content, struct error *err)
{
    const struct s3_request request = {.method = "PUT", .key = key, .body = content};
    OWNED_ANSWER answer = S3_ANSWER(S3_ANSWER_MAX);

    return s3_call(s3->s3, &request, &answer, err);
}

struct result s3_get(struct s3_driver *s3, const char *key, struct buffer *content, struct error *err)
{
    const struct s3_request request = {.method = "GET", .key = key};
    OWNED_ANSWER answer = S3_ANSWER(content->maximum - content->length);

    TRY(s3_call(s3->s3, &request, &answer, err));
    return buffer_add(content, answer.body.data, answer.body.length, err);
}

struct result s3_get_range(struct s3_driver *s3, const char *key, uint64_t offset, struct buffer *content, uint64_t *whole_out,
                           struct error *err)
{
    const struct s3_request request = {
        .method = "GET", .key = key, .with_range = true, .range_first = offset, .range_last = offset + content->maximum - 1};
    struct s3_answer answer = {.body = *content};

    buffer_clear(&answer.body);
    const struct result result = s3_call(s3->s3, &request, &answer, err);
    *content = answer.body; /* the memory of the body may have moved */
    if (!result.ok && err->kind == ERROR_LIMIT)
        return failure(err, ERROR_UNAVAILABLE, "the object store gave more bytes than were asked for");
    TRY(result);
    if (answer.whole_bytes <= offset || content->length > answer.whole_bytes - offset)
        return failure(err, ERROR_UNAVAILABLE, "the object store gave other bytes than were asked for");
    const uint64_t left = answer.whole_bytes - offset;
    if (content->length != (left < content->maximum ? left : content->maximum))
        return failure(err, ERROR_UNAVAILABLE, "the object store gave fewer bytes than were asked for");
    *whole_out = answer.whole_bytes;
    return SUCCESS;
}

struct result s3_delete(struct s3_driver *s3, const char *key, struct error *err)
{
    const struct s3_request request = {.method = "DELETE", .key = key};
    OWNED_ANSWER answer = S3_ANSWER(S3_ANSWER_MAX);
    const struct result result = s3_call(s3->s3, &request, &answer, err);

    return result.ok || err->kind == ERROR_NOT_FOUND ? SUCCESS : result;
}

/* ---- Multipart uploads ---- */

struct result s3_put_part(struct s3_driver *s3, const struct s3_part_name *part, struct bytes content,
                          char etag_out[S3_ETAG_SIZE], struct error *err)
{
    OWNED_ANSWER answer = S3_ANSWER(S3_ANSWER_MAX);
    char number[12];

    (void)snprintf(number, sizeof number, "%" PRIu32, part->number);
    const struct s3_request request = {.method = "PUT",
                                       .key = part->key,
                                       .query = {{"partNumber", number}, {"uploadId", part->upload_id}},
                                       .query_count = 2,
                                       .body = content};
    TRY(s3_call(s3->s3, &request, &answer, err));
    if (answer.etag[0] == '\0') return failure(err, ERROR_UNAVAILABLE, "the object store gave no etag for a part");
    memcpy(etag_out, answer.etag, sizeof answer.etag);
    return SUCCESS;
}

static struct result format_completion(const struct part_piece *pieces, size_t count, struct buffer *text, struct error *err)
{
    TRY(buffer_add_text(text, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">", err));
    for (size_t i = 0; i < count; i++)
        if (pieces[i].number > 0)
            TRY(buffer_format(text, err, "<Part><PartNumber>%" PRIu32 "</PartNumber><ETag>\"%s\"</ETag></Part>", pieces[i].number,
                              pieces[i].etag));
    return buffer_add_text(text, "</CompleteMultipartUpload>", err);
}

/* A missing upload may have been completed: by a first try whose answer was lost, or by another writer. */
static struct result check_completed(struct s3_driver *s3, const char *key, const struct part_piece *pieces, size_t count,
                                     struct error *err)
{
    struct buffer OWNED_BUFFER first = BUFFER(1);
    uint64_t whole = 0, wanted = 0;

    for (size_t i = 0; i < count; i++) wanted += pieces[i].number > 0 ? pieces[i].size_bytes : 0;
    TRY(s3_get_range(s3, key, 0, &first, &whole, err));
    if (whole < wanted) return failure(err, ERROR_CONFLICT, "another program has ended an upload to the bucket");
    return SUCCESS;
}

struct result s3_complete(struct s3_driver *s3, const struct s3_part_name *upload, const struct part_piece *pieces, size_t count,
                          struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(COMPLETION_MAX);
    OWNED_ANSWER answer = S3_ANSWER(S3_ANSWER_MAX);

    TRY(format_completion(pieces, count, &text, err));
    const struct s3_request request = {.method = "POST",
                                       .key = upload->key,
                                       .query = {{"uploadId", upload->upload_id}},
                                       .query_count = 1,
                                       .body = buffer_bytes(&text),
                                       .may_lie = true,
                                       .is_patient = true};
    const struct result result = s3_call(s3->s3, &request, &answer, err);
    if (!result.ok && err->kind == ERROR_NOT_FOUND) return check_completed(s3, upload->key, pieces, count, err);
    TRY(result);
    return s3_answer_completed(buffer_bytes(&answer.body), err);
}

struct result s3_abort(struct s3_driver *s3, const char *key, const char *upload_id, struct error *err)
{
    const struct s3_request request = {.method = "DELETE", .key = key, .query = {{"uploadId", upload_id}}, .query_count = 1};
    OWNED_ANSWER answer = S3_ANSWER(S3_ANSWER_MAX);
    const struct result result = s3_call(s3->s3, &request, &answer, err);

    return result.ok || err->kind == ERROR_NOT_FOUND ? SUCCESS : result;
}
