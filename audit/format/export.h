/*
 * audit/format/export.h -- an export of the events under one key, line by line (docs/formats/audit-export.md).
 *
 * A head comes first; then, in the order of the log: the event before the range, the events of the range, the event after the range, and the closing
 * entry. Each line has its entry with the proof of its inclusion. What a format shows besides follows from these, so a reader writes each line
 * again and compares. A line has no line feed inside.
 */
#pragma once

#include <jansson.h>

#include "audit/format/checkpoint.h"
#include "audit/format/export_terms.h"

#define EXPORT_VERSION     1
#define EXPORT_NOTE_MAX    ((size_t)16 << 10)  /* of a checkpoint with the cosignatures of its witnesses */
#define EXPORT_PAYLOAD_MAX ((size_t)64 << 10)  /* of what was sealed beside an event */
#define EXPORT_LINE_MAX    ((size_t)256 << 10) /* JSON in JSON, so each quote has one or three backslashes */

#define EXPORT_FORMATS(X) X(EXPORT_NDJSON, "ndjson") X(EXPORT_CSV, "csv") X(EXPORT_OCSF, "ocsf")
enum export_format {
#define X(constant, name) constant,
    EXPORT_FORMATS(X)
#undef X
        EXPORT_FORMAT_COUNT
};
const char *export_format_name(enum export_format format);
bool export_format_find(const char *name, enum export_format *format_out);

enum export_place {
    EXPORT_LEFT,   /* the last event before the range */
    EXPORT_EVENT,  /* inside the range */
    EXPORT_RIGHT,  /* the first event after the range, unless that is the closing entry */
    EXPORT_CLOSING /* the event of the export itself */
};
const char *export_place_name(enum export_place place);

struct export_head {
    enum export_format format;
    char origin[CHECKPOINT_ORIGIN_MAX + 1];
    struct export_terms terms;
    uint64_t closing;  /* sequence number of the closing entry */
    struct bytes note; /* the signed checkpoint: a view */
};

struct export_line {
    enum export_place place;
    struct bytes leaf; /* the entry, byte for byte: a view */
    struct merkle_proof inclusion;
    struct bytes payload;         /* canonical JSON: a view; empty: it is sealed, or there is none */
    uint8_t salt[LEAF_SALT_SIZE]; /* with a payload */
};

/** Appends the head: one line, and in CSV the line of titles before it. */
RESULT export_head_write(const struct export_head *head, struct buffer *text, struct error *err);
/** Appends one line. `leaf`: the entry as leaf_read() has read it. ERROR_INVALID: the payload is not canonical JSON. */
RESULT export_line_write(enum export_format format, const struct export_line *line, const struct leaf *leaf, struct buffer *text,
                         struct error *err);

/** What a line was read from; the views of heads and lines are into these. */
struct export_text {
    struct buffer leaf, payload, note;
};
#define EXPORT_TEXT \
    ((struct export_text){.leaf = BUFFER(LEAF_MAX), .payload = BUFFER(EXPORT_PAYLOAD_MAX), .note = BUFFER(EXPORT_NOTE_MAX)})
void export_text_done(struct export_text *text);

/** Whether it is the line of titles of CSV. */
bool export_is_title(struct bytes line);
/** Reads a head, in the format that it shows. `line` has no line feed at its end. ERROR_INVALID unless it is the one spelling. */
RESULT export_head_read(struct bytes line, struct export_text *text, struct export_head *head_out, struct error *err);
/** Reads a line and its entry. ERROR_INVALID unless it is the one spelling, so all that it shows follows from the entry and the payload. */
RESULT export_line_read(enum export_format format, struct bytes line, struct export_text *text, struct export_line *line_out,
                        struct leaf *leaf_out, struct error *err);
/** Whether it has the key, and its number among the events of the key. */
bool export_ordinal(const struct leaf *leaf, const char *key, uint64_t *ordinal_out);
/** Whether the event is the beginning of what the key names: `organisation.create` of org:, `project.create` of prj:. */
bool export_is_beginning(const struct leaf *leaf, const char *key);
/** The terms of an event that is an export. */
bool export_terms_of(const struct leaf *leaf, struct export_terms *terms_out);

/** The rules of a denial, with a space between. */
#define EXPORT_RULES_SIZE (LEAF_RULES_MAX * sizeof((struct leaf_reason *)NULL)->rules[0])
void export_rules(const struct leaf_reason *reason, char text_out[EXPORT_RULES_SIZE]);
/** The event with the members of OCSF 1.3, also those that its class does not define: a new object, NULL without memory. */
json_t *export_ocsf(const struct leaf *leaf, struct bytes text, const json_t *payload);
/** Moves members that the class of the event does not define into `unmapped`. False: no memory. */
bool export_ocsf_fit(json_t *event);
