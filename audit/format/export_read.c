/* Reads the lines of an export. What a line shows is not read but written again, and compared. */
#include <string.h>

#include "audit/format/export.h"
#include "base/json.h"
#include "base/text.h"

#define CELLS 16 /* as many as titles */
enum { CELL_PLACE = 0, CELL_PAYLOAD = 12, CELL_SALT = 13, CELL_PROOF = 14, CELL_LEAF = 15 };

void export_text_done(struct export_text *text)
{
    buffer_done(&text->leaf);
    buffer_done(&text->payload);
    buffer_done(&text->note);
}

static struct result not_a_line(struct error *err)
{
    return failure(err, ERROR_INVALID, "the line is none of an export, or its form is another one than the format has");
}

static struct result read_place(struct bytes word, enum export_place *place_out, struct error *err)
{
    for (unsigned i = EXPORT_LEFT; i <= EXPORT_CLOSING; i++)
        if (bytes_equal(word, bytes_of_text(export_place_name((enum export_place)i)))) {
            *place_out = (enum export_place)i;
            return SUCCESS;
        }
    return not_a_line(err);
}

static struct result read_proof(struct bytes hex, struct merkle_proof *proof, struct error *err)
{
    const size_t width = 2 * MERKLE_HASH_SIZE;

    if (hex.length % width != 0 || hex.length / width > MERKLE_PROOF_MAX) return not_a_line(err);
    proof->count = hex.length / width;
    for (size_t i = 0; i < proof->count; i++)
        if (!text_from_hex((struct bytes){hex.data + i * width, width}, proof->hashes[i].bytes, MERKLE_HASH_SIZE))
            return not_a_line(err);
    return SUCCESS;
}

static struct bytes member(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    return (struct bytes){(const uint8_t *)json_string_value(value), json_string_length(value)};
}

/* ---- JSON ---- */

static struct result read_evidence(const json_t *object, struct export_text *text, struct export_line *line, struct error *err)
{
    const json_t *payload = json_object_get(object, "payload");

    TRY(read_place(member(object, "place"), &line->place, err));
    TRY(read_proof(member(object, "proof"), &line->inclusion, err));
    if (payload == NULL) return SUCCESS;
    if (!json_is_object(payload) || !text_from_hex(member(object, "salt"), line->salt, sizeof line->salt)) return not_a_line(err);
    return json_write_canonical(&text->payload, payload, err);
}

static struct result read_ndjson(const json_t *object, struct export_text *text, struct export_line *line, struct error *err)
{
    const json_t *entry = json_object_get(object, "entry");

    if (!json_is_object(entry)) return not_a_line(err);
    TRY(json_write_canonical(&text->leaf, entry, err));
    return read_evidence(object, text, line, err);
}

static struct result read_ocsf(const json_t *object, struct export_text *text, struct export_line *line, struct error *err)
{
    const struct bytes leaf = member(object, "raw_data");

    if (leaf.length == 0) return not_a_line(err);
    TRY(buffer_add(&text->leaf, leaf.data, leaf.length, err));
    return read_evidence(json_object_get(object, "unmapped"), text, line, err);
}

/* ---- CSV ---- */

/* Appends one cell, without its quotes, and passes over the comma behind it. */
static bool take_cell(struct bytes *left, struct buffer *cell, struct error *err)
{
    size_t at = 1;

    if (left->length < 2 || left->data[0] != '"') return false;
    for (;; at++) {
        if (at >= left->length) return false;
        const bool is_quote = left->data[at] == '"', is_double = is_quote && at + 1 < left->length && left->data[at + 1] == '"';
        if (is_quote && !is_double) break;
        if (is_double) at++;
        if (!buffer_add_u8(cell, left->data[at], err).ok) return false;
    }
    at++;
    if (at < left->length && left->data[at] == ',') at++;
    *left = (struct bytes){left->data + at, left->length - at};
    return true;
}

/* The cells that are not shown again from others; `cells[i]` NULL: passed over. */
static struct result read_cells(struct bytes line, struct buffer *const cells[CELLS], struct error *err)
{
    struct buffer OWNED_BUFFER other = BUFFER(EXPORT_LINE_MAX);

    for (size_t i = 0; i < CELLS; i++) {
        buffer_clear(&other);
        err->kind = ERROR_NONE;
        if (take_cell(&line, cells[i] == NULL ? &other : cells[i], err)) continue;
        return err->kind == ERROR_NO_MEMORY ? (struct result){.ok = false} : not_a_line(err);
    }
    return SUCCESS;
}

static struct result read_csv(struct bytes bytes, struct export_text *text, struct export_line *line, struct error *err)
{
    struct buffer OWNED_BUFFER place = BUFFER(16), salt = BUFFER(256), proof = BUFFER(2 * MERKLE_PROOF_MAX * MERKLE_HASH_SIZE);
    struct buffer *const cells[CELLS] = {[CELL_PLACE] = &place,
                                         [CELL_PAYLOAD] = &text->payload,
                                         [CELL_SALT] = &salt,
                                         [CELL_PROOF] = &proof,
                                         [CELL_LEAF] = &text->leaf};

    TRY(read_cells(bytes, cells, err));
    TRY(read_place(buffer_bytes(&place), &line->place, err));
    TRY(read_proof(buffer_bytes(&proof), &line->inclusion, err));
    if (text->payload.length == 0) return SUCCESS;
    return text_from_hex(buffer_bytes(&salt), line->salt, sizeof line->salt) ? SUCCESS : not_a_line(err);
}

/* ---- lines ---- */

static struct result read_parts(enum export_format format, struct bytes bytes, struct export_text *text, struct export_line *line,
                                struct error *err)
{
    OWNED_JSON object = NULL;

    if (format == EXPORT_CSV) return read_csv(bytes, text, line, err);
    TRY(json_read(bytes, EXPORT_LINE_MAX, &object, err));
    if (!json_is_object(object)) return not_a_line(err);
    return format == EXPORT_OCSF ? read_ocsf(object, text, line, err) : read_ndjson(object, text, line, err);
}

/* The line as it was written, but for its line feed. */
static struct result require_same(const struct buffer *again, struct bytes line, struct error *err)
{
    if (again->length > 0 && bytes_equal(line, (struct bytes){again->data, again->length - 1})) return SUCCESS;
    return failure(err, ERROR_INVALID, "the line shows something else than its own entry says, or has another spelling");
}

struct result export_line_read(enum export_format format, struct bytes bytes, struct export_text *text,
                               struct export_line *line_out, struct leaf *leaf_out, struct error *err)
{
    struct buffer OWNED_BUFFER again = BUFFER(EXPORT_LINE_MAX);
    struct export_line line = {.place = EXPORT_EVENT};

    buffer_clear(&text->leaf);
    buffer_clear(&text->payload);
    if (bytes.length > EXPORT_LINE_MAX) return not_a_line(err);
    TRY(read_parts(format, bytes, text, &line, err));
    line.leaf = buffer_bytes(&text->leaf);
    line.payload = buffer_bytes(&text->payload);
    TRY(leaf_read(line.leaf, leaf_out, err));
    TRY(export_line_write(format, &line, leaf_out, &again, err));
    TRY(require_same(&again, bytes, err));
    *line_out = line;
    return SUCCESS;
}

/* ---- the head ---- */

static bool copy(struct bytes from, char *destination, size_t room)
{
    if (from.length == 0 || from.length >= room) return false;
    memcpy(destination, from.data, from.length);
    destination[from.length] = '\0';
    return true;
}

static bool read_number(const json_t *object, const char *name, uint64_t *value_out)
{
    int64_t value = 0;

    if (!json_integer_of(object, name, &value) || value < 0 || value > EXPORT_NUMBER_MAX) return false;
    *value_out = (uint64_t)value;
    return true;
}

static bool read_terms(const json_t *object, struct export_terms *terms)
{
    const struct bytes nonce = member(object, "nonce"), unit = member(object, "unit");

    terms->is_opened = json_is_true(json_object_get(object, "opened"));
    terms->unit = bytes_equal(unit, bytes_of_text(export_unit_name(EXPORT_BY_TIME))) ? EXPORT_BY_TIME : EXPORT_BY_NUMBER;
    return export_nonce_is_valid(nonce) && copy(nonce, terms->nonce, sizeof terms->nonce) &&
           copy(member(object, "key"), terms->key, sizeof terms->key) && leaf_key_is_possible(terms->key) &&
           read_number(object, "from", &terms->from) && read_number(object, "until", &terms->until) &&
           terms->from <= terms->until;
}

static struct result read_head_text(struct bytes canonical, struct export_text *text, struct export_head *head, struct error *err)
{
    OWNED_JSON object = NULL;

    TRY(json_read(canonical, EXPORT_LINE_MAX, &object, err));
    const struct bytes note = member(object, "checkpoint");
    char format[16];
    if (note.length == 0 || !copy(member(object, "format"), format, sizeof format) ||
        !export_format_find(format, &head->format) || !copy(member(object, "origin"), head->origin, sizeof head->origin) ||
        !read_number(object, "closing", &head->closing) || !read_terms(object, &head->terms))
        return failure(err, ERROR_INVALID, "the head of the export lacks a member, or has one of another form");
    TRY(buffer_add(&text->note, note.data, note.length, err));
    head->note = buffer_bytes(&text->note);
    return SUCCESS;
}

/* The head's own JSON, whichever format it stands in. */
static struct result find_head(struct bytes line, struct buffer *canonical, struct error *err)
{
    struct buffer *const cells[CELLS] = {[CELL_LEAF] = canonical};
    OWNED_JSON object = NULL;

    if (line.length > 0 && line.data[0] == '"') return read_cells(line, cells, err);
    TRY(json_read(line, EXPORT_LINE_MAX, &object, err));
    const json_t *head = json_object_get(object, "export");
    if (json_is_object(head)) return json_write_canonical(canonical, head, err);
    const struct bytes raw = member(object, "raw_data");
    if (raw.length > 0) return buffer_add(canonical, raw.data, raw.length, err);
    return failure(err, ERROR_INVALID, "this is no export: its first line is no head of one");
}

struct result export_head_read(struct bytes line, struct export_text *text, struct export_head *head_out, struct error *err)
{
    struct buffer OWNED_BUFFER canonical = BUFFER(EXPORT_LINE_MAX), again = BUFFER(2 * EXPORT_LINE_MAX);
    struct export_head head = {.closing = 0};

    buffer_clear(&text->note);
    if (line.length > EXPORT_LINE_MAX) return not_a_line(err);
    TRY(find_head(line, &canonical, err));
    TRY(read_head_text(buffer_bytes(&canonical), text, &head, err));
    TRY(export_head_write(&head, &again, err));
    const uint8_t *start = again.data;
    if (head.format == EXPORT_CSV) start = (const uint8_t *)memchr(start, '\n', again.length) + 1;
    const struct bytes same = {start, again.length - 1 - (size_t)(start - again.data)};
    if (!bytes_equal(line, same))
        return failure(err, ERROR_INVALID,
                       "the head of the export has another spelling, or a member that this version does not know");
    *head_out = head;
    return SUCCESS;
}

/* ---- what an event says ---- */

bool export_ordinal(const struct leaf *leaf, const char *key, uint64_t *ordinal_out)
{
    for (size_t i = 0; i < leaf->key_count; i++)
        if (strcmp(leaf->keys[i].name, key) == 0) {
            *ordinal_out = leaf->keys[i].ordinal;
            return true;
        }
    return false;
}

bool export_is_beginning(const struct leaf *leaf, const char *key)
{
    const struct leaf_target *target = &leaf->targets[0];
    const char *action = strncmp(key, "org:", 4) == 0   ? "organisation.create"
                         : strncmp(key, "prj:", 4) == 0 ? "project.create"
                                                        : "";
    const size_t length = strcspn(target->resource, "#");

    return strcmp(leaf->outcome, "allowed") == 0 && strcmp(target->action, action) == 0 && strlen(key + 4) == length &&
           memcmp(target->resource, key + 4, length) == 0;
}

bool export_terms_of(const struct leaf *leaf, struct export_terms *terms_out)
{
    const struct leaf_target *target = &leaf->targets[0];
    const char *detail = strchr(target->resource, '#');

    return leaf->target_count == 1 && strcmp(target->action, EXPORT_ACTION) == 0 && strcmp(leaf->outcome, "allowed") == 0 &&
           detail != NULL && export_terms_read(bytes_of_text(detail + 1), terms_out) && leaf_key_is_possible(terms_out->key);
}
