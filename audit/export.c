#include "audit/export.h"

#include <string.h>

#include "audit/log_tiles_priv.h"
#include "audit/permit_priv.h"
#include "audit/query_priv.h"
#include "audit/search_find_priv.h"
#include "base/memory.h"

#define ROWS 400 /* at a time: about as many lines as a page has room for */

/* ---- the export ---- */

static struct result resolve_range(struct pg *pg, struct audit_export *export, struct error *err)
{
    const struct export_terms *terms = &export->terms;

    export->first = terms->from;
    export->end = terms->until;
    if (terms->unit == EXPORT_BY_TIME) {
        TRY(search_entry_at(pg, (int64_t)terms->from, export->closing, &export->first, err));
        TRY(search_entry_at(pg, (int64_t)terms->until, export->closing, &export->end, err));
    }
    if (export->end > export->closing) export->end = export->closing;
    if (export->first > export->end) export->first = export->end;
    return SUCCESS;
}

struct result audit_export_find(const struct permit *permit, struct pg *pg, uint64_t number, struct audit_export *export_out,
                                struct error *err)
{
    struct audit_export export = {.closing = number};
    OWNED(audit_page) *page = NULL;
    struct leaf leaf;

    TRY(audit_find(permit, pg, number, &page, err));
    const bool is_export = audit_page_is_readable(page, 0) && leaf_read(audit_page_leaf(page, 0), &leaf, err).ok &&
                           export_terms_of(&leaf, &export.terms);
    if (!is_export || strcmp(leaf.actor, permit->actor) != 0)
        return failure(err, ERROR_NOT_FOUND, "there is no such export of yours: POST /api/v1/audit/exports makes one");
    TRY(resolve_range(pg, &export, err));
    *export_out = export;
    return SUCCESS;
}

/* ---- one line ---- */

struct writer {
    const struct permit *permit;
    struct pg *pg;
    const struct audit_export_lines *lines;
    struct log_tiles *tiles; /* one for the page: neighbours have most of their tiles in common */
    struct buffer *text;
    bool is_full;
};

static struct result prove(struct writer *writer, uint64_t sequence, struct export_line *line, struct error *err)
{
    const struct signed_checkpoint *checkpoint = writer->lines->checkpoint;
    struct merkle_hash hash;

    TRY(merkle_prove_inclusion(&writer->tiles->tiles.source, sequence, checkpoint->size, &line->inclusion, err));
    merkle_leaf_hash(line->leaf, &hash);
    if (merkle_verify_inclusion(sequence, checkpoint->size, &hash, &line->inclusion, &checkpoint->root)) return SUCCESS;
    return failure(err, ERROR_FORKED, "entry %llu of the log, or a tile above it, is not as it was signed",
                   (unsigned long long)sequence);
}

/* A sealed part that was erased, or that is damaged, stays sealed: the leaf says that there was one. */
static struct result open_payload(struct writer *writer, struct audit_page *page, size_t index, struct buffer *payload,
                                  struct export_line *line, struct error *err)
{
    const struct bytes salt = audit_page_salt(page, index);
    const struct result opened = audit_page_payload(page, index, writer->lines->keyd, writer->lines->origin, payload, err);

    if (!opened.ok && err->kind != ERROR_CORRUPT && err->kind != ERROR_LIMIT) return opened;
    if (!opened.ok || salt.length != sizeof line->salt) return SUCCESS;
    line->payload = buffer_bytes(payload);
    memcpy(line->salt, salt.data, sizeof line->salt);
    return SUCCESS;
}

static struct result write_line(struct writer *writer, struct audit_page *page, size_t index, enum export_place place,
                                struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(EXPORT_PAYLOAD_MAX);
    struct export_line line = {.place = place, .leaf = audit_page_leaf(page, index)};
    const size_t before = writer->text->length;
    struct leaf leaf;

    if (!audit_page_is_readable(page, index))
        return failure(err, ERROR_CONFLICT,
                       "entry %llu was written by a newer version: this gateway can't tell whether it stands under the key",
                       (unsigned long long)audit_page_sequence(page, index));
    TRY(leaf_read(line.leaf, &leaf, err));
    TRY(prove(writer, leaf.sequence, &line, err));
    if (place == EXPORT_EVENT && writer->lines->export->terms.is_opened)
        TRY(open_payload(writer, page, index, &payload, &line, err));
    if (export_line_write(writer->lines->format, &line, &leaf, writer->text, err).ok) return SUCCESS;
    if (line.payload.length == 0 || (err->kind != ERROR_INVALID && err->kind != ERROR_LIMIT)) return (struct result){.ok = false};
    line.payload.length = 0; /* another spelling than the one that we write: it can't be shown */
    buffer_truncate(writer->text, before);
    return export_line_write(writer->lines->format, &line, &leaf, writer->text, err);
}

/* ---- pages ---- */

static struct result read(const struct writer *writer, const struct audit_filter *range, struct audit_page **page_out,
                          struct error *err)
{
    struct audit_filter filter = *range;

    filter.key = writer->lines->export->terms.key;
    if (filter.from < writer->lines->born) filter.from = writer->lines->born;
    if (filter.until < filter.from) filter.until = filter.from;
    return audit_list(writer->permit, writer->pg, &filter, page_out, err);
}

static bool has_room(const struct writer *writer)
{
    return writer->text->length + EXPORT_LINE_MAX <= writer->text->maximum;
}

/* Writes the events of the range, until there is no more room. */
static struct result write_range(struct writer *writer, const struct audit_filter *range, enum export_place place,
                                 struct error *err)
{
    OWNED(audit_page) *page = NULL;
    size_t i = 0;

    TRY(read(writer, range, &page, err));
    const size_t count = audit_page_count(page);
    for (; i < count && has_room(writer); i++) TRY(write_line(writer, page, i, place, err));
    writer->is_full = i < count || (range->limit > 1 && count == range->limit);
    return SUCCESS;
}

/* An auditor of a part does not see what happened under the same name before this part was made. */
static struct result check_beginning(const struct writer *writer, struct error *err)
{
    const struct audit_export *export = writer->lines->export;
    const struct audit_filter range = {.ascending = true, .from = export->first, .until = export->closing + 1, .limit = 1};
    OWNED(audit_page) *page = NULL;
    uint64_t ordinal = 0;
    struct leaf leaf;

    TRY(read(writer, &range, &page, err));
    if (audit_page_count(page) == 0 || !audit_page_is_readable(page, 0)) return SUCCESS;
    TRY(leaf_read(audit_page_leaf(page, 0), &leaf, err));
    if (!export_ordinal(&leaf, export->terms.key, &ordinal) || ordinal == 1 || export_is_beginning(&leaf, export->terms.key))
        return SUCCESS;
    return failure(
        err, ERROR_CONFLICT,
        "earlier events under %.80s are about a deleted thing of this name, so you can't be shown the event before the range: "
        "export from number %llu on",
        export->terms.key, (unsigned long long)leaf.sequence + 1);
}

static struct result write_beginning(struct writer *writer, struct error *err)
{
    const struct audit_export_lines *lines = writer->lines;
    const struct audit_filter range = {.until = lines->export->first, .limit = 1};
    struct export_head head = {.format = lines->format,
                               .terms = lines->export->terms,
                               .closing = lines->export->closing,
                               .note = bytes_of_text(lines->checkpoint->note)};

    (void)snprintf(head.origin, sizeof head.origin, "%s", lines->log_name);
    TRY(export_head_write(&head, writer->text, err));
    const size_t before = writer->text->length;
    TRY(write_range(writer, &range, EXPORT_LEFT, err));
    return writer->text->length > before || lines->born == 0 ? SUCCESS : check_beginning(writer, err);
}

static struct result write_end(struct writer *writer, struct error *err)
{
    const struct audit_export *export = writer->lines->export;
    const struct audit_filter right = {.ascending = true, .from = export->end, .until = export->closing, .limit = 1};
    const struct audit_filter closing = {.ascending = true, .from = export->closing, .until = export->closing + 1, .limit = 1};

    if (!writer->lines->has_after || writer->lines->after < export->end) TRY(write_range(writer, &right, EXPORT_RIGHT, err));
    return writer->is_full ? SUCCESS : write_range(writer, &closing, EXPORT_CLOSING, err);
}

static struct result write_lines(struct writer *writer, struct error *err)
{
    const struct audit_export_lines *lines = writer->lines;
    const struct audit_export *export = lines->export;
    struct audit_filter events = {.ascending = true, .from = export->first, .until = export->end, .limit = ROWS};

    if (lines->has_after && lines->after >= export->closing)
        return failure(err, ERROR_NOT_FOUND, "the export has no line after its closing entry, which has the number %llu",
                       (unsigned long long)export->closing);
    if (!lines->has_after) TRY(write_beginning(writer, err));
    else if (lines->after >= events.from) events.from = lines->after + 1;
    if (events.from < events.until) TRY(write_range(writer, &events, EXPORT_EVENT, err));
    return writer->is_full ? SUCCESS : write_end(writer, err);
}

struct result audit_export_write(const struct permit *permit, struct pg *pg, const struct audit_export_lines *lines,
                                 struct buffer *text, struct error *err)
{
    struct writer writer = {.permit = permit, .pg = pg, .lines = lines, .text = text};

    (void)permit_resource(permit, ACTION_AUDIT_READ);
    if (lines->export->closing >= lines->checkpoint->size)
        return failure(err, ERROR_UNAVAILABLE, "the export is recorded but not signed yet; ask again in a second");
    writer.tiles = memory_zeroed(1, sizeof *writer.tiles);
    if (writer.tiles == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for proofs");
    log_tiles_init(writer.tiles, pg, lines->checkpoint->size);
    const struct result written = write_lines(&writer, err);
    free(writer.tiles);
    return written;
}
