#include <string.h>

#include "audit/format/fsck_priv.h"
#include "base/memory.h"
#include "crypto/random.h"

#define ROWS_SHARE 4 /* of the memory, for what tags and bindings follow from; the windows get half */

static struct result allocate_window(struct fsck *fsck, struct error *err)
{
    struct fsck_window *window = &fsck->window;
    const uint64_t room = fsck->options.memory / 2 / FSCK_ENTRY_BYTES / DUMP_BLOCK * DUMP_BLOCK;
    const uint64_t wanted = fsck->head.size < room ? fsck->head.size : room;

    window->room = wanted == 0 ? 1 : wanted;
    window->end = wanted;
    window->keys = memory_zeroed(window->room, sizeof *window->keys);
    window->terms = memory_zeroed(window->room, sizeof *window->terms);
    window->subjects = memory_zeroed(window->room, sizeof *window->subjects);
    window->marks = memory_zeroed(window->room, sizeof *window->marks);
    if (window->keys == NULL || window->terms == NULL || window->subjects == NULL || window->marks == NULL)
        return failure(err, ERROR_NO_MEMORY, "no memory for %llu entries", (unsigned long long)window->room);
    return SUCCESS;
}

static struct result begin_log(struct fsck *fsck, const struct dump_head *head, struct error *err)
{
    fsck->head = *head;
    fsck->head.frontier = (struct bytes){0};
    memcpy(fsck->report.origin, head->origin, sizeof fsck->report.origin);
    fsck->report.size = head->size;
    fsck->report.indexed = head->indexed;
    fsck->report.made_ms = head->made_ms;
    struct error why;
    if (!merkle_frontier_read(head->size, head->frontier, &fsck->stored, &why).ok) {
        fsck_find(fsck, FSCK_STATE, head->size, "the state of the log does not have the hashes that its size needs");
        fsck->stored.size = UINT64_MAX;
    }
    if (head->has_more)
        fsck_find(fsck, FSCK_STATE, head->size, "there are rows after the end of the log, where no gateway writes any");
    if (head->indexed > head->size)
        fsck_find(fsck, FSCK_STATE, head->size, "the index of searches says that it has %llu entries, more than the log",
                  (unsigned long long)head->indexed);
    return allocate_window(fsck, err);
}

static struct result take_head(struct fsck *fsck, const struct dump_head *head, struct error *err)
{
    if (strcmp(head->origin, fsck->keys.keys[0].name) != 0)
        return failure(err, ERROR_DENIED, "the dump is of the log %.120s, and the key is that of %.120s", head->origin,
                       fsck->keys.keys[0].name);
    if (fsck->has_head && (head->size != fsck->head.size || head->made_ms != fsck->head.made_ms))
        return failure(err, ERROR_INVALID, "the dump is another one than before: the same file is read several times");
    fsck->window.is_over = false;
    const bool is_first = !fsck->has_head;
    fsck->has_head = true;
    if (is_first) TRY(begin_log(fsck, head, err));
    fsck->has_key = fsck->has_post = fsck->has_blind = false;
    return SUCCESS;
}

/* Goes on to the block of a record that is about entries. Their hashes are in the tree before what follows from them is compared. */
static struct result reach(struct fsck *fsck, const struct dump_record *record, struct error *err)
{
    uint64_t block = 0;
    bool has_block = false;

    TRY(fsck_block_of(fsck, record, &block, &has_block, err));
    if (has_block) TRY(fsck_advance(fsck, block, err));
    return record->type == DUMP_ENTRY ? SUCCESS : fsck_close_entries(fsck, err);
}

static struct result take(void *context, const struct dump_record *record, struct error *err)
{
    struct fsck *fsck = context;
    const bool is_of_block = record->type == DUMP_ENTRY || record->type == DUMP_TILE || record->type == DUMP_PAYLOAD ||
                             record->type == DUMP_CHECKPOINT;

    if (is_of_block) TRY(reach(fsck, record, err));
    else if (record->type != DUMP_HEAD && record->type != DUMP_FACTS && record->type != DUMP_ARCHIVE)
        TRY(fsck_end_blocks(fsck, err));
    switch (record->type) {
    case DUMP_HEAD: return take_head(fsck, &record->head, err);
    case DUMP_FACTS: return fsck_take_facts(fsck, &record->facts, err);
    case DUMP_ARCHIVE: fsck->archived = record->archive.until; return SUCCESS;
    case DUMP_ENTRY: return fsck_take_entry(fsck, &record->entry, err);
    case DUMP_TILE: return fsck_take_tile(fsck, &record->tile, err);
    case DUMP_PAYLOAD: return fsck_take_payload(fsck, &record->payload, err);
    case DUMP_CHECKPOINT: fsck_take_checkpoint(fsck, &record->checkpoint); return SUCCESS;
    case DUMP_RUN: return fsck_take_run(fsck, &record->run, err);
    case DUMP_POST: return fsck_take_post(fsck, &record->post, err);
    case DUMP_BLIND: return fsck_take_blind(fsck, &record->post, err);
    case DUMP_TAG: fsck_rows_tag(fsck, &record->tag); return SUCCESS;
    case DUMP_BINDING: fsck_rows_binding(fsck, &record->binding); return SUCCESS;
    case DUMP_PERSON: fsck_persons_row(fsck, &record->person); return SUCCESS;
    case DUMP_IDENTITY: fsck_identity_row(fsck, &record->told); return SUCCESS;
    case DUMP_LINK: fsck_link_row(fsck, &record->told); return SUCCESS;
    case DUMP_GROUP: fsck_groups_row(fsck, &record->group); return SUCCESS;
    case DUMP_END: fsck_end_indexes(fsck); return SUCCESS;
    }
    return SUCCESS;
}

struct result fsck_new(const struct fsck_options *options, struct fsck **fsck_out, struct error *err)
{
    OWNED(fsck) *fsck = memory_zeroed(1, sizeof *fsck);

    if (options->memory < FSCK_MEMORY_MIN || options->memory > FSCK_MEMORY_MAX || options->threads < 1 ||
        options->threads > FSCK_THREADS_MAX)
        return failure(err, ERROR_INVALID, "a check takes from 64 MiB to 1 TiB of memory, and from 1 to %d threads",
                       FSCK_THREADS_MAX);
    if (fsck == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for checking a dump");
    fsck->options = *options;
    fsck->options.vkey = (struct bytes){0};
    TRY(log_keys_read(options->vkey, &fsck->keys, err));
    random_bytes(fsck->secret, sizeof fsck->secret);
    fsck->block = memory_zeroed(1, sizeof *fsck->block);
    if (fsck->block == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for checking a dump");
    fsck->block->text = BUFFER((size_t)DUMP_BLOCK * (LEAF_MAX + 1 + 2 * DUMP_NAME_MAX));
    TRY(fsck_rows_new(fsck->secret, options->memory / ROWS_SHARE, &fsck->rows, err));
    TRY(dump_reader_new(&fsck->reader, err));
    *fsck_out = GIVE(fsck);
    return SUCCESS;
}

void fsck_free(struct fsck *fsck)
{
    if (fsck == NULL) return;
    dump_reader_free(fsck->reader);
    fsck_rows_free(fsck->rows);
    free(fsck->window.keys);
    free(fsck->window.terms);
    free(fsck->window.subjects);
    free(fsck->window.marks);
    free(fsck->facts.hashes);
    if (fsck->block != NULL) buffer_done(&fsck->block->text);
    free(fsck->block);
    free(fsck);
}

struct result fsck_feed(struct fsck *fsck, struct bytes piece, struct error *err)
{
    return dump_reader_feed(fsck->reader, piece, take, fsck, err);
}

static void next_window(struct fsck *fsck)
{
    struct fsck_window *window = &fsck->window;
    const uint64_t left = fsck->head.size - window->end;

    window->first = window->end;
    window->end += left < window->room ? left : window->room;
    memset(window->keys, 0, window->room * sizeof *window->keys);
    memset(window->terms, 0, window->room * sizeof *window->terms);
    memset(window->subjects, 0, window->room * sizeof *window->subjects);
    memset(window->marks, 0, window->room * sizeof *window->marks);
}

/* Nothing but a signed root vouches for the hash of an entry without bytes. Only signed entries are archived. */
static void check_released(struct fsck *fsck)
{
    const struct fsck_report *report = &fsck->report;

    if (report->released == 0 || report->released_last < report->signed_size) return;
    fsck_find(fsck, FSCK_ENTRY, report->released_last, "it has no bytes, and no checkpoint of the dump covers its hash");
}

/* What no checkpoint covers is proven by nothing: whoever can write to the database can have written it. The newest entries may wait for their signature. */
static void check_unsigned(struct fsck *fsck)
{
    const struct fsck_report *report = &fsck->report;
    const int64_t waiting_ms = report->made_ms - fsck->unsigned_ms;

    if (report->signed_size >= report->size) return;
    if (report->signed_size == 0)
        fsck_find(fsck, FSCK_CHECKPOINT, 0,
                  "the log's key has signed none of the stored checkpoints, so nothing vouches for any entry");
    else if (waiting_ms > FSCK_UNSIGNED_MS)
        fsck_find(
            fsck, FSCK_CHECKPOINT, report->signed_size,
            "no stored checkpoint covers it and what follows, %lld s after it was recorded: rows are gone, or no gateway has run since",
            (long long)(waiting_ms / 1000));
    else if (waiting_ms < -FSCK_UNSIGNED_MS)
        fsck_find(fsck, FSCK_CHECKPOINT, report->signed_size,
                  "no stored checkpoint covers it and what follows, and its time is %lld s after the dump was made",
                  (long long)(-waiting_ms / 1000));
}

struct result fsck_end_pass(struct fsck *fsck, bool *again_out, struct error *err)
{
    struct dump_reader *reader = NULL;

    TRY(dump_reader_end(fsck->reader, err));
    fsck->report.passes++;
    *again_out = fsck->window.end < fsck->seen;
    if (!*again_out) {
        fsck_rows_end(fsck);
        check_released(fsck);
        check_unsigned(fsck);
        return SUCCESS;
    }
    TRY(dump_reader_new(&reader, err));
    dump_reader_free(fsck->reader);
    fsck->reader = reader;
    next_window(fsck);
    return SUCCESS;
}

const struct fsck_report *fsck_report(const struct fsck *fsck)
{
    return &fsck->report;
}
