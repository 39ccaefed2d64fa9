/* A report beside the one that its evidence leads to. */
#include <string.h>

#include "residency/residency_priv.h"

#define SHOWN 120 /* bytes of a row in a message */

struct result residency_question_of(const json_t *report, struct residency_question *question_out, struct error *err)
{
    const json_t *from = json_object_get(report, "from");
    const char *kind = json_text_of(report, "kind"), *unit = json_text_of(from, "unit");
    const json_t *part = json_object_get(report, "part");
    int64_t value = 0, number = 0;

    if (kind == NULL || strcmp(kind, RESIDENCY_KIND) != 0)
        return failure(err, ERROR_DENIED, "this is no residency report ('sijil report residency' writes one)");
    if (unit == NULL || !json_integer_of(from, "value", &value) || value < 0)
        return failure(err, ERROR_DENIED, "the report does not say from when on it is");
    if (part != NULL && (!json_integer_of(part, "number", &number) || number < 1 || number > RESIDENCY_PARTS_MAX))
        return failure(err, ERROR_DENIED, "the report does not say which part it is");
    *question_out = (struct residency_question){
        .unit = strcmp(unit, "time") == 0 ? EXPORT_BY_TIME : EXPORT_BY_NUMBER, .from = (uint64_t)value, .part = (size_t)number};
    return SUCCESS;
}

static struct result differs(const char *where, const json_t *right, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RESIDENCY_REPORT_MAX);

    if (right == NULL) return failure(err, ERROR_DENIED, "%s is in the report, and the evidence does not lead to it", where);
    TRY(json_write_canonical(&text, right, err));
    return failure(err, ERROR_DENIED, "%s is wrong: the evidence leads to %.*s%s", where, SHOWN, buffer_text(&text),
                   text.length > SHOWN ? "..." : "");
}

static struct result compare_rows(const char *table, const json_t *rows, const json_t *right, struct error *err)
{
    const size_t count = json_array_size(rows), wanted = json_array_size(right);
    char where[64];

    for (size_t i = 0; i < count || i < wanted; i++) {
        const json_t *row = json_array_get(rows, i), *other = json_array_get(right, i);
        if (row != NULL && other != NULL && json_equal(row, other)) continue;
        (void)snprintf(where, sizeof where, "row %zu of \"%s\"", i + 1, table);
        return differs(where, other, err);
    }
    return SUCCESS;
}

/* Another version of the program may have another mapping: the report says which one it has. */
static bool has_other_mapping(const json_t *report, const char *member)
{
    const char *mapping = json_text_of(report, "mapping");
    const bool is_mapping = strcmp(member, "mapping") == 0 || strcmp(member, "controls") == 0;

    return is_mapping && mapping != NULL && strcmp(mapping, residency_mapping()) != 0;
}

static struct result compare_members(const json_t *report, const json_t *right, struct error *err)
{
    const char *member = NULL;
    json_t *value = NULL;
    char where[64];

    json_object_foreach ((json_t *)(uintptr_t)right, member, value) {
        const json_t *given = json_object_get(report, member);
        if (has_other_mapping(report, member) || (given != NULL && json_equal(given, value))) continue;
        if (json_is_array(value) && json_is_array(given)) TRY(compare_rows(member, given, value, err));
        (void)snprintf(where, sizeof where, "\"%s\"", member);
        return differs(where, value, err);
    }
    return SUCCESS;
}

struct result residency_compare(const json_t *report, const json_t *right, struct error *err)
{
    TRY(compare_members(report, right, err));
    if (json_object_size(report) == json_object_size(right)) return SUCCESS;
    return failure(err, ERROR_DENIED, "the report has a member that no report has");
}
