/* Lines of an export, in each of its formats. */
#include <stdio.h>
#include <string.h>

#include "audit/format/export.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"

#define PROOF_TEXT_MAX (MERKLE_PROOF_MAX * MERKLE_HASH_SIZE * 2 + 1)
#define TITLES         "place,seq,time,outcome,action,resource,region,actor,subject,address,rules,decision,payload,salt,proof,leaf"

static const char *const formats[] = {
#define X(constant, name) [constant] = (name),
    EXPORT_FORMATS(X)
#undef X
};
static const char *const places[] = {"left", "event", "right", "closing"};

const char *export_format_name(enum export_format format)
{
    return formats[format];
}

bool export_format_find(const char *name, enum export_format *format_out)
{
    for (unsigned i = 0; i < EXPORT_FORMAT_COUNT; i++)
        if (strcmp(name, formats[i]) == 0) {
            *format_out = (enum export_format)i;
            return true;
        }
    return false;
}

const char *export_place_name(enum export_place place)
{
    return places[place];
}

static struct result without_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for a line of an export");
}

static void proof_hex(const struct merkle_proof *proof, char text_out[PROOF_TEXT_MAX])
{
    text_out[0] = '\0';
    for (size_t i = 0; i < proof->count; i++)
        text_hex(proof->hashes[i].bytes, MERKLE_HASH_SIZE, text_out + i * MERKLE_HASH_SIZE * 2);
}

static json_t *json_of(struct bytes text)
{
    return json_stringn((const char *)text.data, text.length);
}

/* ---- JSON ---- */

static struct result write_json(const json_t *value, struct buffer *text, struct error *err)
{
    if (value == NULL) return without_memory(err);
    TRY(json_write_canonical(text, value, err));
    return buffer_add_u8(text, '\n', err);
}

/* {"place","proof"}, and of an opened event "salt" and what `member` is. */
static json_t *evidence(const struct export_line *line, json_t *payload)
{
    char proof[PROOF_TEXT_MAX], salt[2 * LEAF_SALT_SIZE + 1];
    OWNED_JSON value = NULL;

    proof_hex(&line->inclusion, proof);
    text_hex(line->salt, sizeof line->salt, salt);
    value = json_pack("{s:s, s:s}", "place", places[line->place], "proof", proof);
    if (value == NULL) return NULL;
    if (payload != NULL &&
        (json_object_set(value, "payload", payload) != 0 || json_object_set_new(value, "salt", json_string(salt)) != 0))
        return NULL;
    return json_incref(value);
}

static struct result write_ndjson(const struct export_line *line, json_t *payload, struct buffer *text, struct error *err)
{
    OWNED_JSON value = evidence(line, payload);
    OWNED_JSON entry = NULL;

    TRY(json_read(line->leaf, LEAF_MAX, &entry, err));
    if (value == NULL || json_object_set(value, "entry", entry) != 0) return without_memory(err);
    return write_json(value, text, err);
}

static struct result write_ocsf(const struct export_line *line, const struct leaf *leaf, json_t *payload, struct buffer *text,
                                struct error *err)
{
    OWNED_JSON value = export_ocsf(leaf, line->leaf, payload);
    OWNED_JSON more = evidence(line, payload);

    if (value == NULL || more == NULL || !export_ocsf_fit(value) ||
        (json_object_get(value, "unmapped") != NULL &&
         json_object_update_missing(more, json_object_get(value, "unmapped")) != 0) ||
        json_object_set(value, "unmapped", more) != 0)
        return without_memory(err);
    return write_json(value, text, err);
}

/* ---- CSV ---- */

/* RFC 4180. A spreadsheet takes a text that begins with one of these letters for a formula, and others choose the text. */
static struct result write_cell(struct bytes cell, bool is_last, struct buffer *text, struct error *err)
{
    const bool is_formula = cell.length > 0 && memchr("=+-@", cell.data[0], 4) != NULL;

    TRY(buffer_add_text(text, is_formula ? "\"'" : "\"", err));
    for (size_t i = 0; i < cell.length; i++) {
        if (cell.data[i] == '"') TRY(buffer_add_u8(text, '"', err));
        TRY(buffer_add_u8(text, cell.data[i] < ' ' ? '?' : cell.data[i], err)); /* one line for each event */
    }
    return buffer_add_text(text, is_last ? "\"\r\n" : "\",", err);
}

static struct result write_cells(const struct bytes *cells, size_t count, struct buffer *text, struct error *err)
{
    for (size_t i = 0; i < count; i++) TRY(write_cell(cells[i], i + 1 == count, text, err));
    return SUCCESS;
}

static struct bytes text_member(const json_t *payload, const char *name)
{
    const json_t *value = json_object_get(payload, name);

    return (struct bytes){(const uint8_t *)json_string_value(value), json_string_length(value)};
}

static struct result write_csv(const struct export_line *line, const struct leaf *leaf, const json_t *payload,
                               struct buffer *text, struct error *err)
{
    char proof[PROOF_TEXT_MAX], salt[2 * LEAF_SALT_SIZE + 1] = "", when[CLOCK_TEXT_SIZE], number[24];
    char rules[EXPORT_RULES_SIZE];

    proof_hex(&line->inclusion, proof);
    if (payload != NULL) text_hex(line->salt, sizeof line->salt, salt);
    clock_format(leaf->time_ms, when);
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)leaf->sequence);
    export_rules(&leaf->reason, rules);
    const struct bytes cells[] = {bytes_of_text(places[line->place]),
                                  bytes_of_text(number),
                                  bytes_of_text(when),
                                  bytes_of_text(leaf->outcome),
                                  bytes_of_text(leaf->targets[0].action),
                                  bytes_of_text(leaf->targets[0].resource),
                                  bytes_of_text(leaf->targets[0].region),
                                  bytes_of_text(leaf->actor),
                                  text_member(payload, "subject"),
                                  text_member(payload, "address"),
                                  bytes_of_text(rules),
                                  bytes_of_text(leaf->reason.decision),
                                  line->payload,
                                  bytes_of_text(salt),
                                  bytes_of_text(proof),
                                  line->leaf};
    return write_cells(cells, sizeof cells / sizeof cells[0], text, err);
}

/* ---- any format ---- */

/* The payload is shown as an object, so its bytes must be the ones that the object is written as. */
static struct result read_payload(const struct export_line *line, json_t **payload_out, struct error *err)
{
    struct buffer OWNED_BUFFER again = BUFFER(EXPORT_PAYLOAD_MAX);
    OWNED_JSON payload = NULL;

    if (line->payload.length == 0) return SUCCESS;
    TRY(json_read(line->payload, EXPORT_PAYLOAD_MAX, &payload, err));
    TRY(json_write_canonical(&again, payload, err));
    if (!json_is_object(payload) || !bytes_equal(buffer_bytes(&again), line->payload))
        return failure(err, ERROR_INVALID, "what was sealed beside the event is not in the canonical spelling");
    *payload_out = json_incref(payload);
    return SUCCESS;
}

struct result export_line_write(enum export_format format, const struct export_line *line, const struct leaf *leaf,
                                struct buffer *text, struct error *err)
{
    const size_t before = text->length;
    OWNED_JSON payload = NULL;

    TRY(read_payload(line, &payload, err));
    switch (format) {
    case EXPORT_CSV: TRY(write_csv(line, leaf, payload, text, err)); break;
    case EXPORT_OCSF: TRY(write_ocsf(line, leaf, payload, text, err)); break;
    case EXPORT_NDJSON:
    case EXPORT_FORMAT_COUNT: TRY(write_ndjson(line, payload, text, err)); break;
    }
    if (text->length - before <= EXPORT_LINE_MAX) return SUCCESS;
    return failure(err, ERROR_LIMIT, "an event makes a line of more than %zu bytes", EXPORT_LINE_MAX);
}

static json_t *head_json(const struct export_head *head)
{
    const struct export_terms *terms = &head->terms;

    return json_pack("{s:s%, s:I, s:s, s:I, s:s, s:s, s:b, s:s, s:s, s:I, s:i}", "checkpoint", (const char *)head->note.data,
                     head->note.length, "closing", (json_int_t)head->closing, "format", formats[head->format], "from",
                     (json_int_t)terms->from, "key", terms->key, "nonce", terms->nonce, "opened", terms->is_opened ? 1 : 0,
                     "origin", head->origin, "unit", export_unit_name(terms->unit), "until", (json_int_t)terms->until, "v",
                     EXPORT_VERSION);
}

/* The base event of OCSF, so that a reader of OCSF can pass over it. */
static json_t *head_ocsf(const struct buffer *head)
{
    return json_pack("{s:i, s:i, s:i, s:{s:{s:s, s:s}, s:s}, s:o, s:i, s:i, s:i}", "activity_id", 99, "category_uid", 0,
                     "class_uid", 0, "metadata", "product", "name", "Sijil", "vendor_name", "Sijil", "version", "1.3.0",
                     "raw_data", json_of(buffer_bytes(head)), "severity_id", 1, "time", 0, "type_uid", 99);
}

static struct result write_head_csv(const struct buffer *head, struct buffer *text, struct error *err)
{
    struct bytes cells[16] = {bytes_of_text("head")}; /* as many as titles */

    cells[15] = buffer_bytes(head);
    TRY(buffer_add_text(text, TITLES "\r\n", err));
    return write_cells(cells, sizeof cells / sizeof cells[0], text, err);
}

struct result export_head_write(const struct export_head *head, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER canonical = BUFFER(EXPORT_LINE_MAX);
    OWNED_JSON value = head_json(head);

    if (value == NULL) return without_memory(err);
    TRY(json_write_canonical(&canonical, value, err));
    if (head->format == EXPORT_CSV) return write_head_csv(&canonical, text, err);
    OWNED_JSON shown = head->format == EXPORT_OCSF ? head_ocsf(&canonical) : json_pack("{s:O}", "export", value);
    return write_json(shown, text, err);
}

bool export_is_title(struct bytes line)
{
    return bytes_equal(line, bytes_of_text(TITLES "\r"));
}
