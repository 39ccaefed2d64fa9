#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "storage/blob_reader_priv.h"

enum { AHEAD = 2 << 20 }; /* bytes that the driver is asked to read ahead */

/* ---- Positions ---- */

/* The first record after extent `index`. */
uint64_t blob_reader_extent_end(const struct blob_reader *reader, size_t index)
{
    const struct sjb1_extents *extents = &reader->trailer.extents;

    return index + 1 < extents->count ? extents->list[index + 1].first : reader->trailer.records;
}

/* The stored length of a record. */
size_t blob_reader_sealed_length(const struct blob_reader *reader, uint64_t record)
{
    return sjb1_record_plain(reader->trailer.length, record) + GCM_TAG_SIZE;
}

/* The offset of a record in the object that holds extent `index`. */
uint64_t blob_reader_record_at(const struct blob_reader *reader, size_t index, uint64_t record)
{
    const uint64_t first = reader->store->operations->is_flat ? 0 : reader->trailer.extents.list[index].first;

    return sjb1_record_offset(record - first);
}

/* The end of extent `index` in its object. */
static uint64_t extent_length(const struct blob_reader *reader, size_t index)
{
    const uint64_t last = blob_reader_extent_end(reader, index) - 1;

    return blob_reader_record_at(reader, index, last) + blob_reader_sealed_length(reader, last);
}

enum { PAGE = 4096 };

struct room {
    uint8_t *data;
    size_t length;
};

/* If memory may be damaged, the pages are dropped first, so the next read comes from the disk. Only whole pages
 * can be dropped. */
static struct result read_part(const struct blob_reader *reader, struct driver_part *part, uint64_t at, struct room into,
                               struct error *err)
{
    const uint64_t from = at & ~(uint64_t)(PAGE - 1);

    if (reader->is_cached_only)
        return reader->store->operations->part_read_cached(part, at, into.data, into.length)
                   ? SUCCESS
                   : failure(err, ERROR_UNAVAILABLE, "not in memory");
    if (reader->is_again)
        reader->store->operations->part_forget(part, from, (at + into.length + PAGE - 1 - from) & ~(uint64_t)(PAGE - 1));
    return reader->store->operations->part_read(part, at, into.data, into.length, err);
}

/* ---- Opening ---- */

static struct result check_header(const struct blob_reader *reader, struct driver_part *part, struct error *err)
{
    uint8_t header[SJB1_HEADER_SIZE] = {0};

    TRY(sjb1_within(read_part(reader, part, 0, (struct room){header, sizeof header}, err), err, "header"));
    return sjb1_header_check(&reader->format, header, err);
}

static struct result read_footer(const struct blob_reader *reader, uint32_t *length_out, struct error *err)
{
    const uint64_t size = reader->store->operations->part_size(reader->part);
    uint8_t footer[SJB1_FOOTER_SIZE] = {0};
    uint32_t length = 0;

    if (size < SJB1_HEADER_SIZE + GCM_TAG_SIZE + SJB1_TRAILER_MIN + SJB1_FOOTER_SIZE)
        return failure(err, ERROR_CORRUPT, "footer: a file of %" PRIu64 " bytes is cut", size);
    TRY(read_part(reader, reader->part, size - sizeof footer, (struct room){footer, sizeof footer}, err));
    TRY(sjb1_footer_parse(footer, &length, err));
    if (length + SJB1_FOOTER_SIZE > size - SJB1_HEADER_SIZE - GCM_TAG_SIZE)
        return failure(err, ERROR_CORRUPT, "footer: the trailer is longer than the file");
    *length_out = length;
    return SUCCESS;
}

static struct result read_trailer(struct blob_reader *reader, uint64_t *at_out, struct error *err)
{
    const struct driver_operations *operations = reader->store->operations;
    struct buffer OWNED_BUFFER sealed = BUFFER(SJB1_TRAILER_MAX);
    uint8_t key[SJB1_KEY_SIZE];
    uint8_t *destination = NULL;
    uint32_t length = 0;

    TRY(read_footer(reader, &length, err));
    TRY(buffer_reserve(&sealed, length, &destination, err));
    const uint64_t at = operations->part_size(reader->part) - SJB1_FOOTER_SIZE - length;
    TRY(sjb1_within(read_part(reader, reader->part, at, (struct room){destination, length}, err), err, "trailer"));
    TRY(sjb1_key(&reader->format, secret_bytes(reader->data_key), SJB1_INFO_TRAILER, destination, key, err));
    const struct result result = sjb1_trailer_open(destination, length, key, &reader->trailer, err);
    secret_wipe(key, sizeof key);
    TRY(result);
    *at_out = at;
    return SUCCESS;
}

static bool has_digest(const struct sjb1_trailer *trailer, const struct digest *digest)
{
    for (size_t i = 0; i < trailer->digest_count; i++)
        if (digest_equal(&trailer->digests[i], digest)) return true;
    return false;
}

/* The trailer is authentic at this point; it must also be the one that the row names. */
static struct result check_trailer(const struct blob_reader *reader, uint64_t trailer_at, struct error *err)
{
    const struct sjb1_trailer *trailer = &reader->trailer;
    const struct sjb1_extents *extents = &trailer->extents;

    if (trailer->length != reader->content.length)
        return failure(err, ERROR_CORRUPT, "trailer: it seals %" PRIu64 " bytes, but %" PRIu64 " are recorded", trailer->length,
                       reader->content.length);
    if (!uuid_equal(&trailer->project, &reader->identity.project))
        return failure(err, ERROR_CORRUPT, "trailer: the project is another one");
    if (!has_digest(trailer, &reader->content.digest))
        return failure(err, ERROR_CORRUPT, "trailer: the recorded digest is not among those sealed");
    if (extents->list[extents->count - 1].part != reader->content.part)
        return failure(err, ERROR_CORRUPT, "trailer: it stands in another extent than the list says");
    if (extent_length(reader, extents->count - 1) != trailer_at)
        return failure(err, ERROR_CORRUPT, "trailer: it does not follow the last record; bytes were cut or added");
    return SUCCESS;
}

/* Opens the object of an extent, and checks that it belongs to this blob and is long enough. */
static struct result open_part(struct blob_reader *reader, size_t index, struct driver_part **part_out, struct error *err)
{
    const struct driver_operations *operations = reader->store->operations;
    struct driver_part *part = NULL;

    TRY(operations->part_open(reader->store->driver, &reader->identity.blob, reader->trailer.extents.list[index].part, &part,
                              err));
    struct result result = check_header(reader, part, err);
    if (result.ok && operations->part_size(part) < extent_length(reader, index))
        result = failure(err, ERROR_CORRUPT, "it is cut");
    if (result.ok) *part_out = part;
    else operations->part_close(part);
    return result;
}

/* A damaged extent is found before the first byte is sent, not in the middle of a download. */
static struct result check_other_extents(struct blob_reader *reader, struct error *err)
{
    if (reader->store->operations->is_flat) return SUCCESS;
    if (reader->is_cached_only && reader->trailer.extents.count > 1)
        return failure(err, ERROR_UNAVAILABLE, "the other extents are not open");
    for (size_t i = 0; i + 1 < reader->trailer.extents.count; i++) {
        struct driver_part *part = NULL;
        TRY(sjb1_within(open_part(reader, i, &part, err), err, "extent %zu", i));
        reader->store->operations->part_close(part);
    }
    return SUCCESS;
}

static struct result use_key_of(struct blob_reader *reader, size_t index, struct error *err)
{
    struct gcm *gcm = NULL;
    uint8_t key[SJB1_KEY_SIZE];

    TRY(sjb1_key(&reader->format, secret_bytes(reader->data_key), SJB1_INFO_DATA, reader->trailer.extents.list[index].salt, key,
                 err));
    const struct result result = gcm_new(key, &gcm, err);
    secret_wipe(key, sizeof key);
    TRY(result);
    gcm_free(reader->gcm);
    reader->gcm = gcm;
    reader->current = index;
    reader->ahead_until = 0;
    return SUCCESS;
}

static struct result open_last(struct blob_reader *reader, struct error *err)
{
    const struct driver_operations *operations = reader->store->operations;
    const struct uuid *blob = &reader->identity.blob;

    if (!reader->is_cached_only)
        return operations->part_open(reader->store->driver, blob, reader->content.part, &reader->part, err);
    if (operations->part_open_cached(reader->store->driver, blob, reader->content.part, &reader->part)) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "not in memory");
}

static struct result check_blob(struct blob_reader *reader, struct error *err)
{
    uint64_t trailer_at = 0;

    TRY(open_last(reader, err));
    TRY(check_header(reader, reader->part, err));
    TRY(read_trailer(reader, &trailer_at, err));
    TRY(check_trailer(reader, trailer_at, err));
    TRY(check_other_extents(reader, err));
    return use_key_of(reader, reader->trailer.extents.count - 1, err);
}

static struct result prepare(struct blob_store *store, const struct blob_identity *identity, const struct blob_content *content,
                             const struct secret *data_key, struct blob_reader **reader_out, struct error *err)
{
    OWNED(blob_reader) *reader = NULL;

    TRY(blob_store_owns(store, identity, err));
    reader = memory_zeroed(1, sizeof *reader);
    if (reader == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a reader");
    reader->store = store;
    reader->identity = *identity;
    reader->content = *content;
    reader->cached = NO_RECORD;
    reader->plain = blocks_take(store->blocks);
    if (reader->plain == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a reader");
    reader->sealed = reader->plain + SJB1_RECORD_SIZE;
    TRY(secret_copy(secret_bytes(data_key), &reader->data_key, err));
    TRY(sjb1_context_make(identity, secret_bytes(data_key), &reader->format, err));
    *reader_out = GIVE(reader);
    return SUCCESS;
}

struct result blob_reader_open(struct blob_store *store, const struct blob_identity *identity, const struct blob_content *content,
                               const struct secret *data_key, struct blob_reader **reader_out, struct error *err)
{
    OWNED(blob_reader) *reader = NULL;

    TRY(prepare(store, identity, content, data_key, &reader, err));
    TRY(check_blob(reader, err));
    *reader_out = GIVE(reader);
    return SUCCESS;
}

struct result blob_reader_open_again(struct blob_store *store, const struct blob_identity *identity,
                                     const struct blob_content *content, const struct secret *data_key,
                                     struct blob_reader **reader_out, struct error *err)
{
    OWNED(blob_reader) *reader = NULL;

    TRY(prepare(store, identity, content, data_key, &reader, err));
    reader->is_again = true;
    TRY(check_blob(reader, err));
    *reader_out = GIVE(reader);
    return SUCCESS;
}

bool blob_reader_open_cached(struct blob_store *store, const struct blob_identity *identity, const struct blob_content *content,
                             const struct secret *data_key, struct blob_reader **reader_out)
{
    OWNED(blob_reader) *reader = NULL;
    struct error ignored = {0};

    if (store->operations->part_open_cached == NULL || store->operations->part_read_cached == NULL) return false;
    if (!prepare(store, identity, content, data_key, &reader, &ignored).ok) return false;
    reader->is_cached_only = true;
    const bool is_good = check_blob(reader, &ignored).ok;
    reader->is_cached_only = false;
    if (is_good) *reader_out = GIVE(reader);
    return is_good;
}

uint64_t blob_reader_length(const struct blob_reader *reader)
{
    return reader->trailer.length;
}

void blob_reader_free(struct blob_reader *reader)
{
    if (reader == NULL) return;
    reader->store->operations->part_close(reader->part);
    gcm_free(reader->gcm);
    sjb1_trailer_done(&reader->trailer);
    secret_free(reader->data_key);
    if (reader->plain != NULL) secret_wipe(reader->plain, reader->touched);
    blocks_give(reader->store->blocks, reader->plain);
    free(reader);
}

/* ---- Reading ---- */

/* The extent that `record` is in: the last one that does not start after it. */
static size_t extent_of(const struct blob_reader *reader, uint64_t record)
{
    size_t low = 0, high = reader->trailer.extents.count;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (reader->trailer.extents.list[middle].first <= record) low = middle;
        else high = middle;
    }
    return low;
}

struct result blob_reader_go_to(struct blob_reader *reader, size_t index, struct error *err)
{
    struct driver_part *part = NULL;

    if (index == reader->current) return SUCCESS;
    if (!reader->store->operations->is_flat) {
        if (reader->is_cached_only) return failure(err, ERROR_UNAVAILABLE, "the next extent is not open");
        TRY(sjb1_within(open_part(reader, index, &part, err), err, "extent %zu", index));
        reader->store->operations->part_close(reader->part);
        reader->part = part;
        reader->current = SIZE_MAX; /* no key is valid until the next line succeeds */
    }
    return use_key_of(reader, index, err);
}

static void ask_ahead(struct blob_reader *reader, uint64_t at)
{
    const uint64_t size = reader->store->operations->part_size(reader->part);

    if (at < reader->ahead_until && reader->ahead_until - at > AHEAD / 2) return;
    if (at >= reader->ahead_until || reader->ahead_until - at > AHEAD) reader->ahead_until = at;
    if (reader->ahead_until >= size) return;
    const struct driver_operations *operations = reader->store->operations;
    (operations->part_pull != NULL ? operations->part_pull : operations->part_ahead)(reader->part, reader->ahead_until, AHEAD);
    reader->ahead_until += AHEAD;
}

/* Reads `count` consecutive records of the open extent into `sealed`. */
struct result blob_reader_fetch(struct blob_reader *reader, uint64_t record, size_t count, struct error *err)
{
    const uint64_t last = record + count - 1;
    const uint64_t at = blob_reader_record_at(reader, reader->current, record);
    const size_t length =
        (size_t)(blob_reader_record_at(reader, reader->current, last) - at) + blob_reader_sealed_length(reader, last);

    assert(count >= 1 && count <= BATCH_RECORDS && length <= SEALED_SIZE);
    /* Reading ahead may wait too, if the disk does not answer. */
    if (!reader->is_check && !reader->is_again && !reader->is_cached_only) ask_ahead(reader, at);
    return sjb1_within(read_part(reader, reader->part, at, (struct room){reader->sealed, length}, err), err, "record %" PRIu64,
                       record);
}

struct result blob_reader_decrypt(struct blob_reader *reader, uint64_t record, const uint8_t *sealed, uint8_t *into,
                                  struct error *err)
{
    uint8_t nonce[GCM_NONCE_SIZE];

    sjb1_nonce(record, record + 1 == reader->trailer.records, nonce);
    return sjb1_within(gcm_open(reader->gcm, nonce, (struct bytes){0},
                                (struct bytes){sealed, blob_reader_sealed_length(reader, record)}, into, err),
                       err, "record %" PRIu64, record);
}

/* Decrypts one record into the reader's own memory, when the caller wants only a part of the record. */
static struct result cache(struct blob_reader *reader, uint64_t record, struct error *err)
{
    if (reader->cached == record) return SUCCESS;
    reader->cached = NO_RECORD;
    TRY(blob_reader_go_to(reader, extent_of(reader, record), err));
    TRY(blob_reader_fetch(reader, record, 1, err));
    const size_t plain = sjb1_record_plain(reader->trailer.length, record);
    if (plain > reader->touched) reader->touched = plain;
    TRY(blob_reader_decrypt(reader, record, reader->sealed, reader->plain, err));
    reader->cached = record;
    return SUCCESS;
}

/* Decrypts whole records straight into the caller's memory: as many as fit, within one extent and one batch. */
static struct result read_whole(struct blob_reader *reader, uint64_t record, uint8_t *into, size_t length, size_t *done_out,
                                struct error *err)
{
    const size_t index = extent_of(reader, record);
    const uint64_t end = blob_reader_extent_end(reader, index);
    size_t count = 0, done = 0, plain = 0;

    TRY(blob_reader_go_to(reader, index, err));
    while (count < BATCH_RECORDS && record + count < end &&
           done + (plain = sjb1_record_plain(reader->trailer.length, record + count)) <= length) {
        done += plain;
        count++;
    }
    TRY(blob_reader_fetch(reader, record, count, err));
    for (size_t i = 0; i < count; i++)
        TRY(blob_reader_decrypt(reader, record + i, reader->sealed + i * SJB1_RECORD_SIZE, into + i * BLOB_RECORD_PLAIN, err));
    *done_out = done;
    return SUCCESS;
}

static struct result read_piece(struct blob_reader *reader, uint64_t offset, uint8_t *into, size_t length, size_t *done_out,
                                struct error *err)
{
    const uint64_t record = offset / BLOB_RECORD_PLAIN;
    TRY(blob_store_require_open(reader->store, err));
    const size_t within = (size_t)(offset % BLOB_RECORD_PLAIN);
    const size_t plain = sjb1_record_plain(reader->trailer.length, record);

    if (within == 0 && length >= plain && record != reader->cached)
        return read_whole(reader, record, into, length, done_out, err);
    TRY(cache(reader, record, err));
    *done_out = plain - within < length ? plain - within : length;
    memcpy(into, reader->plain + within, *done_out);
    return SUCCESS;
}

struct result blob_reader_read(struct blob_reader *reader, uint64_t offset, uint8_t *into, size_t length, struct error *err)
{
    const uint64_t size = reader->trailer.length;
    size_t done = 0;

    if (offset > size || length > size - offset)
        return failure(err, ERROR_INVALID, "bytes %" PRIu64 " to %" PRIu64 " of a blob of %" PRIu64, offset, offset + length,
                       size);
    for (size_t total = 0; total < length; total += done) {
        const struct result result = read_piece(reader, offset + total, into + total, length - total, &done, err);
        if (result.ok) continue;
        secret_wipe(into, length);
        return result;
    }
    return SUCCESS;
}

bool blob_reader_read_cached(struct blob_reader *reader, uint64_t offset, uint8_t *into, size_t length)
{
    struct error ignored;

    if (reader->store->operations->part_read_cached == NULL) return false;
    reader->is_cached_only = true;
    const bool is_read = blob_reader_read(reader, offset, into, length, &ignored).ok;
    reader->is_cached_only = false;
    return is_read;
}

bool blob_reader_names(const struct blob_reader *reader, const struct driver_entry *entry)
{
    const struct sjb1_extents *extents = &reader->trailer.extents;
    bool is_named = false;

    for (size_t i = 0; i < extents->count && entry->is_extent && !is_named; i++) is_named = extents->list[i].part == entry->part;
    return is_named;
}
