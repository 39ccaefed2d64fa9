/* All tables of a report as one CSV: a row has the columns of its own table, and the others are empty. */
#include <string.h>

#include "residency/residency_priv.h"

static const struct csv_column {
    enum residency_table table;
    const char *member;
} columns[] = {
#define COLUMN(table, member, english, arabic) {table, member},
#include "residency/words.def"
};
#define COLUMNS (sizeof columns / sizeof columns[0])

/* Tables share columns of one name. */
static bool is_first_of_name(size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(columns[i].member, columns[index].member) == 0) return false;
    return true;
}

/* A text that a spreadsheet would take for a formula gets an apostrophe: also if spaces, or one of the wide forms U+FF0B, U+FF0D, U+FF1D or U+FF20, come first. */
static bool is_formula(const char *text)
{
    static const char *const begins[] = {"=", "+", "-", "@", "\xef\xbc\x8b", "\xef\xbc\x8d", "\xef\xbc\x9d", "\xef\xbc\xa0"};

    text += strspn(text, " ");
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
        if (strncmp(text, begins[i], strlen(begins[i])) == 0) return true;
    return false;
}

/* The text is one of page_clean(). */
static struct result add_cell(const char *text, struct buffer *csv, struct error *err)
{
    TRY(buffer_add_text(csv, is_formula(text) ? "\"'" : "\"", err));
    for (; *text != '\0'; text++) {
        if (*text == '"') TRY(buffer_add_u8(csv, '"', err));
        TRY(buffer_add_u8(csv, (uint8_t)*text, err));
    }
    return buffer_add_u8(csv, '"', err);
}

static struct result add_titles(struct buffer *csv, struct error *err)
{
    TRY(buffer_add_text(csv, "table", err));
    for (size_t i = 0; i < COLUMNS; i++)
        if (is_first_of_name(i)) TRY(buffer_format(csv, err, ",%s", columns[i].member));
    return buffer_add_text(csv, "\r\n", err);
}

static struct result add_row(const char *table, const json_t *row, struct buffer *csv, struct error *err)
{
    struct buffer OWNED_BUFFER cell = BUFFER(RESIDENCY_REPORT_MAX), clean = BUFFER(RESIDENCY_REPORT_MAX);

    TRY(add_cell(table, csv, err));
    for (size_t i = 0; i < COLUMNS; i++) {
        if (!is_first_of_name(i)) continue;
        buffer_clear(&cell);
        buffer_clear(&clean);
        TRY(page_value(json_object_get(row, columns[i].member), &cell, err));
        TRY(page_clean(buffer_text(&cell), &clean, err));
        TRY(buffer_add_u8(csv, ',', err));
        TRY(add_cell(buffer_text(&clean), csv, err));
    }
    return buffer_add_text(csv, "\r\n", err);
}

struct result residency_csv(const json_t *report, struct buffer *text, struct error *err)
{
    TRY(add_titles(text, err));
    for (enum residency_table table = 0; table < TABLE_COUNT; table++) {
        const json_t *rows = json_object_get(report, residency_table_name(table));
        for (size_t i = 0; i < json_array_size(rows); i++)
            TRY(add_row(residency_table_name(table), json_array_get(rows, i), text, err));
    }
    return SUCCESS;
}
