#include "audit/dump.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/archive.h"
#include "audit/dump_store_priv.h"

#define PIECE_SIZE ((size_t)256 << 10)              /* bytes that are written at a time */
#define PIECE_MAX  (PIECE_SIZE + 2 * DUMP_BODY_MAX) /* with the record that completes them */
#define PAGE       1024                             /* entries */

struct dump {
    const struct audit_dump_options *options;
    struct pg *pg;
    struct dump_writer *writer;
    struct buffer out;
    uint64_t size;
    int64_t checkpoint; /* the last one that was written: its size and its note */
    char note[DUMP_NOTE_MAX + 1];
    struct audit_dump_released released;
};

static struct result flush(struct dump *dump, size_t least, struct error *err)
{
    if (dump->out.length < least || dump->out.length == 0) return SUCCESS;
    TRY(dump->options->write(dump->options->context, buffer_bytes(&dump->out), err));
    buffer_clear(&dump->out);
    return SUCCESS;
}

static struct result add(struct dump *dump, const struct dump_record *record, struct error *err)
{
    TRY(dump_writer_add(dump->writer, record, &dump->out, err));
    return flush(dump, PIECE_SIZE, err);
}

static struct bytes text_at(const struct pg_rows *rows, size_t row, size_t column)
{
    return bytes_of_text(pg_text(rows, row, column));
}

static struct result write_state(struct dump *dump, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct dump_record record = {.type = DUMP_HEAD};

    TRY(dump_load_state(dump->pg, &rows, err));
    if (pg_rows_count(rows) != 1)
        return failure(err, ERROR_CORRUPT, "the state of the log is missing: its tables have no row of it");
    (void)snprintf(record.head.origin, sizeof record.head.origin, "%s", pg_text(rows, 0, 0));
    dump->size = record.head.size = (uint64_t)pg_int8(rows, 0, 1);
    record.head.last_ms = pg_int8(rows, 0, 2);
    record.head.frontier = pg_bytes(rows, 0, 3);
    record.head.indexed = (uint64_t)pg_int8(rows, 0, 4);
    record.head.has_more = pg_bool(rows, 0, 5);
    record.head.made_ms = pg_int8(rows, 0, 6);
    if (record.head.frontier.length > (size_t)64 * MERKLE_HASH_SIZE)
        record.head.frontier.length = 0; /* fsck says that it is wrong */
    return add(dump, &record, err);
}

static struct result write_facts(struct dump *dump, struct error *err)
{
    struct buffer OWNED_BUFFER last = BUFFER(1024);

    for (size_t count = 1; count > 0;) {
        OWNED(pg_rows) *rows = NULL;
        TRY(dump_load_facts(dump->pg, buffer_bytes(&last), &rows, err));
        count = pg_rows_count(rows);
        for (size_t i = 0; i < count; i++) {
            const struct dump_record record = {.type = DUMP_FACTS, .facts = {pg_bytes(rows, i, 0), pg_bytes(rows, i, 1)}};
            TRY(add(dump, &record, err));
        }
        if (count == 0) break;
        buffer_clear(&last);
        const struct bytes digest = pg_bytes(rows, count - 1, 0);
        TRY(buffer_add(&last, digest.data, digest.length, err));
    }
    return SUCCESS;
}

/* A log that has no archive has no such record. */
static struct result write_archive(struct dump *dump, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(dump_load_archive(dump->pg, &rows, err));
    const struct dump_record record = {.type = DUMP_ARCHIVE, .archive = {(uint64_t)pg_int8(rows, 0, 0) * ARCHIVE_PIECE}};
    return record.archive.until == 0 ? SUCCESS : add(dump, &record, err);
}

static void note_released(struct audit_dump_released *released, const struct dump_entry *entry)
{
    if (entry->leaf.length > 0) return;
    if (released->count++ == 0) released->first = entry->sequence;
    released->last = entry->sequence;
}

static struct result write_entries(struct dump *dump, uint64_t first, uint64_t end, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(dump_load_entries(dump->pg, first, end, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const struct dump_record record = {.type = DUMP_ENTRY,
                                           .entry = {.sequence = (uint64_t)pg_int8(rows, i, 0),
                                                     .time_ms = pg_int8(rows, i, 1),
                                                     .hash = pg_bytes(rows, i, 2),
                                                     .action = text_at(rows, i, 3),
                                                     .outcome = text_at(rows, i, 4),
                                                     .leaf = pg_bytes(rows, i, 5)}};
        note_released(&dump->released, &record.entry);
        TRY(add(dump, &record, err));
    }
    return SUCCESS;
}

/* The tiles of a level whose last entry is in the range. */
static struct result write_tiles(struct dump *dump, unsigned level, uint64_t first, uint64_t end, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    const unsigned shift = 8 * (level + 1);

    if (first >> shift == end >> shift) return SUCCESS;
    TRY(dump_load_tiles(dump->pg, level, first >> shift, end >> shift, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const struct dump_record record = {
            .type = DUMP_TILE, .tile = {level, (uint64_t)pg_int8(rows, i, 0), pg_bytes(rows, i, 1), pg_bytes(rows, i, 2)}};
        TRY(add(dump, &record, err));
    }
    return SUCCESS;
}

static struct result write_payloads(struct dump *dump, uint64_t first, uint64_t end, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(dump_load_payloads(dump->pg, first, end, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const struct dump_record record = {.type = DUMP_PAYLOAD,
                                           .payload = {.sequence = (uint64_t)pg_int8(rows, i, 0),
                                                       .subject = pg_bytes(rows, i, 1),
                                                       .has_key = pg_bool(rows, i, 2),
                                                       .length = (uint32_t)pg_int8(rows, i, 3)}};
        TRY(add(dump, &record, err));
    }
    return SUCCESS;
}

/* The last block has the rows of larger sizes, too. */
static struct result write_checkpoints(struct dump *dump, uint64_t end, struct error *err)
{
    const int64_t until = end >= dump->size ? INT64_MAX : (int64_t)end;

    for (size_t count = 1; count > 0;) {
        OWNED(pg_rows) *rows = NULL;
        TRY(dump_load_checkpoints(dump->pg, dump->checkpoint, dump->note, until, &rows, err));
        count = pg_rows_count(rows);
        for (size_t i = 0; i < count; i++) {
            const struct dump_record record = {
                .type = DUMP_CHECKPOINT,
                .checkpoint = {(uint64_t)pg_int8(rows, i, 0), pg_bytes(rows, i, 1), text_at(rows, i, 2)}};
            TRY(add(dump, &record, err));
        }
        if (count == 0) break;
        dump->checkpoint = pg_int8(rows, count - 1, 0);
        (void)snprintf(dump->note, sizeof dump->note, "%s", pg_text(rows, count - 1, 2));
    }
    return SUCCESS;
}

static struct result write_block(struct dump *dump, uint64_t first, struct error *err)
{
    const uint64_t left = dump->size - first, end = first + (left < DUMP_BLOCK ? left : DUMP_BLOCK);

    for (uint64_t at = first; at < end; at += PAGE) TRY(write_entries(dump, at, end - at < PAGE ? end : at + PAGE, err));
    for (unsigned level = 0; level < TILE_LEVEL_MAX; level++) TRY(write_tiles(dump, level, first, end, err));
    TRY(write_payloads(dump, first, end, err));
    TRY(write_checkpoints(dump, end, err));
    if (dump->options->progress != NULL) dump->options->progress(dump->options->context, end, dump->size);
    return SUCCESS;
}

static struct result write_runs(struct dump *dump, struct error *err)
{
    struct buffer OWNED_BUFFER key = BUFFER(1024);
    int64_t last = INT64_MIN;

    for (size_t count = 1; count > 0;) {
        OWNED(pg_rows) *rows = NULL;
        TRY(dump_load_runs(dump->pg, buffer_bytes(&key), last, &rows, err));
        count = pg_rows_count(rows);
        for (size_t i = 0; i < count; i++) {
            const struct dump_record record = {.type = DUMP_RUN,
                                               .run = {.key = pg_bytes(rows, i, 0),
                                                       .last = pg_int8(rows, i, 1),
                                                       .ordinal = pg_int8(rows, i, 2),
                                                       .cardinality = (uint32_t)pg_int8(rows, i, 3),
                                                       .sequences = pg_bytes(rows, i, 4)}};
            TRY(add(dump, &record, err));
        }
        if (count == 0) break;
        last = pg_int8(rows, count - 1, 1);
        buffer_clear(&key);
        const struct bytes bytes = pg_bytes(rows, count - 1, 0);
        TRY(buffer_add(&key, bytes.data, bytes.length, err));
    }
    return SUCCESS;
}

static struct result write_posts(struct dump *dump, bool is_blind, struct error *err)
{
    struct dump_post_cursor cursor = DUMP_POST_FIRST;

    for (size_t count = 1; count > 0;) {
        OWNED(pg_rows) *rows = NULL;
        TRY((is_blind ? dump_load_blind : dump_load_posts)(dump->pg, &cursor, &rows, err));
        count = pg_rows_count(rows);
        for (size_t i = 0; i < count; i++) {
            const struct dump_record record = {.type = is_blind ? DUMP_BLIND : DUMP_POST,
                                               .post = {.key = pg_int8(rows, i, 0),
                                                        .block = (uint64_t)pg_int8(rows, i, 1),
                                                        .subject = is_blind ? pg_bytes(rows, i, 4) : (struct bytes){0},
                                                        .list = pg_bytes(rows, i, 2)}};
            TRY(add(dump, &record, err));
        }
        if (count == 0) break;
        cursor = (struct dump_post_cursor){pg_int8(rows, count - 1, 0), pg_int8(rows, count - 1, 1),
                                           is_blind ? pg_int8(rows, count - 1, 3) : 0};
    }
    return SUCCESS;
}

static struct result write_tags(struct dump *dump, struct error *err)
{
    struct uuid repository = {{0}};
    char tag[DUMP_NAME_MAX + 1] = "";

    for (size_t count = 1; count > 0;) {
        OWNED(pg_rows) *rows = NULL;
        TRY(dump_load_tags(dump->pg, &repository, tag, &rows, err));
        count = pg_rows_count(rows);
        for (size_t i = 0; i < count; i++) {
            const struct dump_record record = {.type = DUMP_TAG,
                                               .tag = {text_at(rows, i, 2), text_at(rows, i, 1), text_at(rows, i, 3)}};
            TRY(add(dump, &record, err));
        }
        if (count == 0) break;
        repository = pg_uuid(rows, count - 1, 0);
        (void)snprintf(tag, sizeof tag, "%s", pg_text(rows, count - 1, 1));
    }
    return SUCCESS;
}

static struct result write_bindings(struct dump *dump, struct error *err)
{
    struct uuid last;
    bool has_last = false;

    for (size_t count = 1; count > 0; has_last = true) {
        OWNED(pg_rows) *rows = NULL;
        TRY(dump_load_bindings(dump->pg, has_last ? &last : NULL, &rows, err));
        count = pg_rows_count(rows);
        for (size_t i = 0; i < count; i++) {
            const struct dump_record record = {.type = DUMP_BINDING,
                                               .binding = {.id = pg_uuid(rows, i, 0),
                                                           .is_live = pg_bool(rows, i, 4),
                                                           .role = text_at(rows, i, 1),
                                                           .holder = text_at(rows, i, 2),
                                                           .scope = text_at(rows, i, 3)}};
            TRY(add(dump, &record, err));
        }
        if (count > 0) last = pg_uuid(rows, count - 1, 0);
    }
    return SUCCESS;
}

static struct result write_persons(struct dump *dump, struct error *err)
{
    int64_t last = INT64_MIN;

    for (size_t count = 1; count > 0;) {
        OWNED(pg_rows) *rows = NULL;
        TRY(dump_load_persons(dump->pg, last, &rows, err));
        count = pg_rows_count(rows);
        for (size_t i = 0; i < count; i++) {
            const struct dump_record record = {
                .type = DUMP_PERSON, .person = {.id = pg_uuid(rows, i, 0), .state = (enum scim_state)pg_int8(rows, i, 1)}};
            TRY(add(dump, &record, err));
        }
        if (count > 0) last = pg_int8(rows, count - 1, 2);
    }
    return SUCCESS;
}

/* Which externalId each person has, or which subjects of tokens. */
static struct result write_told(struct dump *dump, enum dump_type type, struct error *err)
{
    int64_t last = INT64_MIN;

    for (size_t count = 1; count > 0;) {
        OWNED(pg_rows) *rows = NULL;
        TRY(dump_load_told(dump->pg, type == DUMP_LINK, last, &rows, err));
        count = pg_rows_count(rows);
        for (size_t i = 0; i < count; i++) {
            const struct dump_record record = {
                .type = type,
                .told = {.id = pg_uuid(rows, i, 0), .names_event = pg_bool(rows, i, 1), .digest = pg_bytes(rows, i, 2)}};
            TRY(add(dump, &record, err));
        }
        if (count > 0) last = pg_int8(rows, count - 1, 3);
    }
    return SUCCESS;
}

static struct result write_groups(struct dump *dump, struct error *err)
{
    struct uuid last = {{0}};
    bool has_last = false;

    for (size_t count = 1; count > 0;) {
        OWNED(pg_rows) *rows = NULL;
        TRY(dump_load_groups(dump->pg, has_last ? &last : NULL, &rows, err));
        count = pg_rows_count(rows);
        for (size_t i = 0; i < count; i++) {
            const struct dump_record record = {.type = DUMP_GROUP, .group = {pg_uuid(rows, i, 0), pg_bytes(rows, i, 1)}};
            TRY(add(dump, &record, err));
        }
        if (count > 0) last = pg_uuid(rows, count - 1, 0);
        has_last = true;
    }
    return SUCCESS;
}

static struct result write_all(struct dump *dump, struct error *err)
{
    TRY(dump_writer_begin(dump->writer, &dump->out, err));
    TRY(write_state(dump, err));
    TRY(write_facts(dump, err));
    TRY(write_archive(dump, err));
    for (uint64_t first = 0; first < dump->size; first += DUMP_BLOCK) TRY(write_block(dump, first, err));
    if (dump->size == 0) TRY(write_checkpoints(dump, 0, err));
    TRY(write_runs(dump, err));
    TRY(write_posts(dump, false, err));
    TRY(write_posts(dump, true, err));
    TRY(write_tags(dump, err));
    TRY(write_bindings(dump, err));
    TRY(write_persons(dump, err));
    TRY(write_told(dump, DUMP_IDENTITY, err));
    TRY(write_told(dump, DUMP_LINK, err));
    TRY(write_groups(dump, err));
    TRY(dump_writer_end(dump->writer, &dump->out, err));
    return flush(dump, 0, err);
}

static struct result run(struct dump *dump, struct error *err)
{
    TRY(pg_begin_snapshot(dump->pg, err));
    const struct result written = write_all(dump, err);
    pg_rollback(dump->pg);
    return written;
}

struct result audit_dump(const struct audit_dump_options *options, struct audit_dump_released *released_out, struct error *err)
{
    static const struct pg_table *const tables[] = {&audit_dump_table, NULL};
    OWNED(pg) *pg = NULL;
    OWNED(dump_writer) *writer = NULL;
    struct dump dump = {.options = options, .out = BUFFER(PIECE_MAX), .checkpoint = INT64_MIN};

    TRY(pg_open(options->conninfo, tables, &pg, err));
    TRY(dump_writer_new(&writer, err));
    dump.pg = pg;
    dump.writer = writer;
    const struct result written = run(&dump, err);
    buffer_done(&dump.out);
    *released_out = dump.released;
    return written;
}
