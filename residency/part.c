/* A report of many rows, in parts that a reader can take one by one. */
#include "residency/residency_priv.h"

/* The table of controls is the same for all, and in each part. */
static bool is_cut(enum residency_table table)
{
    return table != TABLE_CONTROLS;
}

static size_t row_count(const json_t *report)
{
    size_t rows = 0;

    for (enum residency_table table = 0; table < TABLE_COUNT; table++)
        if (is_cut(table)) rows += json_array_size(json_object_get(report, residency_table_name(table)));
    return rows;
}

size_t residency_parts(const json_t *report)
{
    const size_t rows = row_count(report);

    return rows == 0 ? 1 : (rows + RESIDENCY_ROWS_MAX - 1) / RESIDENCY_ROWS_MAX;
}

/* The rows of a table from `first` on and before `end`, counted from 0. */
static struct result cut_table(const json_t *rows, size_t first, size_t end, json_t *kept, struct error *err)
{
    for (size_t i = first; i < end && i < json_array_size(rows); i++)
        if (json_array_append(kept, json_array_get(rows, i)) != 0) return residency_no_memory(err);
    return SUCCESS;
}

/* Rows are counted through all tables, in their order. */
static struct result cut(const json_t *report, size_t first, size_t end, json_t *part, struct error *err)
{
    size_t at = 0; /* rows before this table */

    for (enum residency_table table = 0; table < TABLE_COUNT; table++) {
        const json_t *rows = json_object_get(report, residency_table_name(table));
        OWNED_JSON kept = json_array();
        if (!is_cut(table)) continue;
        if (kept == NULL) return residency_no_memory(err);
        TRY(cut_table(rows, first > at ? first - at : 0, end > at ? end - at : 0, kept, err));
        at += json_array_size(rows);
        if (json_object_set(part, residency_table_name(table), kept) != 0) return residency_no_memory(err);
    }
    return SUCCESS;
}

struct result residency_part(const json_t *report, size_t part, json_t **part_out, struct error *err)
{
    const size_t count = residency_parts(report);
    OWNED_JSON copy = json_copy((json_t *)(uintptr_t)report);

    if (copy == NULL) return residency_no_memory(err);
    if (part > count) return failure(err, ERROR_DENIED, "the evidence leads to %zu parts, and not to a part %zu", count, part);
    if (part > 0 && count > 1) {
        TRY(residency_put(copy, "part",
                          json_pack("{s:I, s:I, s:I}", "number", (json_int_t)part, "of", (json_int_t)count, "rows",
                                    (json_int_t)row_count(report)),
                          err));
        TRY(cut(report, (part - 1) * RESIDENCY_ROWS_MAX, part * RESIDENCY_ROWS_MAX, copy, err));
    }
    *part_out = GIVE(copy);
    return SUCCESS;
}
