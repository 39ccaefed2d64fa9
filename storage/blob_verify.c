/* Checks a stored blob: all of it, at a rate that the caller limits, without changing the page cache. */
#include "storage/blob_reader_priv.h"

enum { WINDOW_RECORDS = 32 }; /* 2 MiB, which are read ahead together, and dropped or kept together */

static bool goes_on(const struct blob_verify_options *options, uint64_t done, uint64_t length)
{
    return options->progress == NULL || options->progress(options->context, done, length);
}

/*
 * Whether the window was in the page cache before the check: then other readers use it, and it stays. Only the window's
 * last record is tested, because the kernel reads a little ahead by itself, and nothing has asked for the last record yet.
 */
static bool is_served(struct blob_reader *reader, uint64_t last)
{
    const struct driver_operations *operations = reader->store->operations;

    return operations->part_read_cached != NULL &&
           operations->part_read_cached(reader->part, blob_reader_record_at(reader, reader->current, last), reader->sealed,
                                        blob_reader_sealed_length(reader, last));
}

/* Up to a batch of records of the open extent. */
static struct result verify_batch(struct blob_reader *reader, uint64_t record, size_t count, struct hasher *hasher,
                                  struct error *err)
{
    reader->cached = NO_RECORD; /* the memory of `plain` is used here */
    TRY(blob_reader_fetch(reader, record, count, err));
    for (size_t i = 0; i < count; i++) {
        const size_t length = sjb1_record_plain(reader->trailer.length, record + i);
        if (length > reader->touched) reader->touched = length;
        TRY(blob_reader_decrypt(reader, record + i, reader->sealed + i * SJB1_RECORD_SIZE, reader->plain, err));
        if (hasher != NULL) hasher_add(hasher, (struct bytes){reader->plain, length});
    }
    return SUCCESS;
}

struct window {
    uint64_t first, end; /* records of the open extent */
};

static struct result verify_window(struct blob_reader *reader, struct window window, const struct blob_verify_options *options,
                                   struct hasher *hasher, struct error *err)
{
    const struct driver_operations *operations = reader->store->operations;
    const bool stays = !reader->is_again && is_served(reader, window.end - 1);

    if (!stays)
        operations->part_ahead(reader->part, blob_reader_record_at(reader, reader->current, window.first),
                               (window.end - window.first) * SJB1_RECORD_SIZE);
    for (uint64_t record = window.first; record < window.end; record += BATCH_RECORDS) {
        const uint64_t left = window.end - record;
        const size_t count = left < BATCH_RECORDS ? (size_t)left : BATCH_RECORDS;
        const uint64_t last = record + count - 1;
        TRY(verify_batch(reader, record, count, hasher, err));
        if (!stays)
            operations->part_forget(reader->part, blob_reader_record_at(reader, reader->current, record),
                                    count * SJB1_RECORD_SIZE);
        if (!goes_on(options, last * BLOB_RECORD_PLAIN + sjb1_record_plain(reader->trailer.length, last), reader->trailer.length))
            return failure(err, ERROR_UNAVAILABLE, "the check was stopped");
    }
    return SUCCESS;
}

static struct result verify_extent(struct blob_reader *reader, size_t index, const struct blob_verify_options *options,
                                   struct hasher *hasher, struct error *err)
{
    const uint64_t end = blob_reader_extent_end(reader, index);
    const uint64_t from = hasher != NULL ? 0 : options->from_bytes / BLOB_RECORD_PLAIN;
    uint64_t record = reader->trailer.extents.list[index].first;

    if (record < from) record = from;
    if (record >= end) return SUCCESS;
    TRY(blob_reader_go_to(reader, index, err));
    for (; record < end; record += WINDOW_RECORDS) {
        const uint64_t until = end - record < WINDOW_RECORDS ? end : record + WINDOW_RECORDS;
        TRY(verify_window(reader, (struct window){record, until}, options, hasher, err));
    }
    return SUCCESS;
}

static struct result verify_all(struct blob_reader *reader, const struct blob_verify_options *options, struct error *err)
{
    OWNED(hasher) *hasher = NULL;

    if (options->with_digest) TRY(hasher_new(reader->content.digest.algorithm, &hasher, err));
    for (size_t i = 0; i < reader->trailer.extents.count; i++) TRY(verify_extent(reader, i, options, hasher, err));
    if (hasher == NULL) return SUCCESS;
    const struct digest digest = hasher_digest(hasher);
    if (!digest_equal(&digest, &reader->content.digest))
        return failure(err, ERROR_CORRUPT, "digest: the content has another one than is recorded");
    return SUCCESS;
}

struct result blob_verify(struct blob_reader *reader, const struct blob_verify_options *options, struct error *err)
{
    reader->is_check = true;
    const struct result verified = verify_all(reader, options, err);
    reader->is_check = false;
    return verified;
}
