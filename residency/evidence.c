/* Reads evidence: the lines of an export, then facts, policy sets and restrictions. Twice, because events are decided with what stands behind them. */
#include <string.h>

#include "base/text.h"
#include "crypto/digest.h"
#include "residency/residency_priv.h"

#define FACTS_BEGIN       "{\"facts\":"
#define SET_BEGIN         "{\"set\":"
#define RESTRICTION_BEGIN "{\"restriction\":"

struct reading {
    FILE *file;
    struct buffer line; /* without its line feed */
    uint64_t number;
    struct residency *residency;
    const struct residency_trust *trust;
    struct export_check *check;
    struct export_text text;
    struct buffer note;
    struct hasher *hasher;
};

static bool begins(struct bytes line, const char *text)
{
    const size_t length = strlen(text);

    return line.length >= length && memcmp(line.data, text, length) == 0;
}

static bool is_of_export(struct bytes line)
{
    return !begins(line, FACTS_BEGIN) && !begins(line, SET_BEGIN) && !begins(line, RESTRICTION_BEGIN);
}

/* A line without a line feed is none: the file was cut off. */
static struct result read_line(struct reading *reading, bool *is_end_out, struct error *err)
{
    int letter = 0;

    buffer_clear(&reading->line);
    reading->number++;
    while ((letter = getc_unlocked(reading->file)) != EOF && letter != '\n')
        TRY(buffer_add_u8(&reading->line, (uint8_t)letter, err));
    if (ferror(reading->file)) return failure(err, ERROR_UNAVAILABLE, "the evidence can't be read");
    *is_end_out = letter == EOF && reading->line.length == 0;
    if (letter == EOF && !*is_end_out) return failure(err, ERROR_DENIED, "the evidence is cut off");
    return SUCCESS;
}

/* ---- first: what events are decided with ---- */

static struct result take_part(struct reading *reading, struct error *err)
{
    const struct bytes line = buffer_bytes(&reading->line);
    OWNED_JSON json = NULL;

    hasher_add(reading->hasher, line);
    hasher_add(reading->hasher, bytes_of_text("\n"));
    if (is_of_export(line)) return SUCCESS;
    TRY(json_read(line, RESIDENCY_LINE_MAX, &json, err));
    if (json_object_size(json) != 1) return failure(err, ERROR_DENIED, "it has more than facts, a policy set or a restriction");
    const json_t *facts = json_object_get(json, "facts"), *restriction = json_object_get(json, "restriction");
    if (facts != NULL) return residency_take_facts(reading->residency, facts, err);
    if (restriction != NULL) return residency_take_restriction(reading->residency, restriction, reading->trust, err);
    return residency_take_set(reading->residency, json_object_get(json, "set"), reading->trust, err);
}

/* ---- then: the events ---- */

static struct result take_head(struct reading *reading, struct error *err)
{
    const struct export_head *head = export_check_head(reading->check);

    if (head == NULL || reading->note.length > 0) return SUCCESS;
    if (head->format != EXPORT_NDJSON || strncmp(head->terms.key, "prj:", 4) != 0 ||
        !text_is_visible(bytes_of_text(head->terms.key)))
        return failure(err, ERROR_DENIED, "its export is not that of a project");
    (void)snprintf(reading->residency->project, sizeof reading->residency->project, "%s", head->terms.key + 4);
    return buffer_add(&reading->note, head->note.data, head->note.length, err);
}

static struct result take_line(struct reading *reading, struct error *err)
{
    const struct bytes line = buffer_bytes(&reading->line);
    const bool has_head = export_check_head(reading->check) != NULL;
    struct export_line read;
    struct leaf leaf;

    if (!is_of_export(line)) return SUCCESS;
    TRY(export_check_bytes(reading->check, line, err));
    TRY(export_check_bytes(reading->check, (struct bytes){(const uint8_t *)"\n", 1}, err));
    if (!has_head) return take_head(reading, err);
    TRY(export_line_read(EXPORT_NDJSON, line, &reading->text, &read, &leaf, err));
    if (read.place == EXPORT_CLOSING) residency_take_closing(reading->residency, &leaf);
    return read.place == EXPORT_EVENT ? residency_take_event(reading->residency, &leaf, err) : SUCCESS;
}

typedef struct result line_taker(struct reading *reading, struct error *err);

static struct result read_all(struct reading *reading, line_taker *take, struct error *err)
{
    bool is_end = false;

    reading->number = 0;
    if (fseek(reading->file, 0, SEEK_SET) != 0) return failure(err, ERROR_INVALID, "the evidence must be a file, and no pipe");
    for (;;) {
        struct error why = {0};
        struct result taken = read_line(reading, &is_end, &why);
        if (taken.ok && is_end) return SUCCESS;
        if (taken.ok) taken = take(reading, &why);
        if (!taken.ok) {
            const bool is_bad = why.kind == ERROR_INVALID || why.kind == ERROR_DENIED;
            return failure(err, is_bad ? ERROR_DENIED : why.kind, "evidence, line %llu: %.200s",
                           (unsigned long long)reading->number, why.message);
        }
    }
}

/* ---- both ---- */

static struct result read_twice(struct reading *reading, char digest_out[DIGEST_TEXT_SIZE], struct error *err)
{
    TRY(hasher_new(DIGEST_SHA256, &reading->hasher, err));
    TRY(export_check_new(&reading->trust->log, &reading->check, err));
    TRY(read_all(reading, take_part, err));
    const struct digest digest = hasher_digest(reading->hasher);
    digest_format(&digest, digest_out);
    TRY(read_all(reading, take_line, err));
    TRY(export_check_end(reading->check, &reading->residency->findings.export, err));
    if (reading->residency->findings.export.left != EXPORT_EDGE_NEIGHBOUR) return SUCCESS;
    return failure(err, ERROR_DENIED, "the export does not begin with the project: what lies there is not known");
}

static void reading_done(struct reading *reading)
{
    hasher_free(reading->hasher);
    export_check_free(reading->check);
    export_text_done(&reading->text);
    buffer_done(&reading->line);
    buffer_done(&reading->note);
}

struct result residency_compose(FILE *evidence, const struct residency_trust *trust, const struct residency_question *question,
                                json_t **report_out, struct residency_findings *findings_out, struct error *err)
{
    __attribute__((cleanup(reading_done))) struct reading reading = {.file = evidence,
                                                                     .line = BUFFER(RESIDENCY_LINE_MAX),
                                                                     .note = BUFFER(EXPORT_NOTE_MAX),
                                                                     .text = EXPORT_TEXT,
                                                                     .trust = trust};
    OWNED(residency) *residency = NULL;
    char digest[DIGEST_TEXT_SIZE];
    json_t *report = NULL;

    TRY(residency_new(question, &residency, err));
    reading.residency = residency;
    TRY(residency_take_proven(residency, trust, err));
    TRY(read_twice(&reading, digest, err));
    TRY(residency_report(residency, buffer_bytes(&reading.note), digest, &report, err));
    *findings_out = residency->findings;
    *report_out = report;
    return SUCCESS;
}

struct result residency_facts_line(struct bytes facts, struct buffer *text, struct error *err)
{
    TRY(buffer_add_text(text, FACTS_BEGIN, err));
    TRY(buffer_add(text, facts.data, facts.length, err));
    return buffer_add_text(text, "}\n", err);
}

struct result residency_restriction_line(struct bytes document, struct buffer *text, struct error *err)
{
    TRY(buffer_add_text(text, RESTRICTION_BEGIN, err));
    TRY(buffer_add(text, document.data, document.length, err));
    return buffer_add_text(text, "}\n", err);
}

struct result residency_set_line(struct bytes set, struct buffer *text, struct error *err)
{
    while (set.length > 0 && set.data[set.length - 1] == '\n') set.length--;
    TRY(buffer_add_text(text, SET_BEGIN, err));
    TRY(buffer_add(text, set.data, set.length, err));
    return buffer_add_text(text, "}\n", err);
}
