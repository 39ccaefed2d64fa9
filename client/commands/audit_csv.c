/* Rows of events and counts as CSV, with times in UTC; and times of rows as the reader's zone has them, for tables. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "client/commands/audit_priv.h"

/* A spreadsheet takes a text that begins with one of these letters for a formula, and others choose the text. */
static void print_cell(const char *cell, bool is_first)
{
    const char *text = strcmp(cell, "-") == 0 ? "" : cell; /* what is nothing in a table is empty here */

    (void)printf("%s\"%s", is_first ? "" : ",", text[0] != '\0' && strchr("=+-@", text[0]) != NULL ? "'" : "");
    for (; *text != '\0'; text++) (void)printf("%s%c", *text == '"' ? "\"" : "", *text);
    (void)putchar('"');
}

void audit_print_csv(const char *const *cells, size_t count)
{
    for (size_t i = 0; i < count; i++) print_cell(cells[i], i == 0);
    (void)printf("\r\n");
}

void audit_print_csv_rows(const json_t *rows, const struct column *columns, size_t column_count)
{
    char cell[CELL_MAX];

    for (size_t c = 0; c < column_count; c++) {
        if (c > 0) (void)putchar(',');
        for (const char *letter = columns[c].title; *letter != '\0'; letter++) (void)putchar(tolower((unsigned char)*letter));
    }
    (void)printf("\r\n");
    for (size_t r = 0; r < json_array_size(rows); r++) {
        for (size_t c = 0; c < column_count; c++) {
            cell_text(json_object_get(json_array_get(rows, r), columns[c].member), cell);
            print_cell(cell, c == 0);
        }
        (void)printf("\r\n");
    }
}

struct result audit_check_form(const struct invocation *invocation, struct error *err)
{
    if (invocation_option(invocation, 'C') == NULL || !invocation->json) return SUCCESS;
    return failure(err, ERROR_INVALID, "--csv and --json are two forms: give one");
}

/* A text that is no time stays as it is. */
static struct result show_locally(json_t *row, const char *member, struct error *err)
{
    const char *text = json_text_of(row, member);
    char time_text[AUDIT_TIME_SIZE];
    int64_t wall_ms = 0;

    if (text == NULL || !clock_parse(bytes_of_text(text), &wall_ms)) return SUCCESS;
    audit_time_text(wall_ms, time_text);
    return json_object_set_new(row, member, json_string(time_text)) == 0 ? SUCCESS : api_no_memory(err);
}

struct result audit_print_dated(const struct invocation *invocation, json_t *rows, const struct columns_dated *columns,
                                struct error *err)
{
    if (invocation_option(invocation, 'C') != NULL) {
        audit_print_csv_rows(rows, columns->all, columns->count);
        return SUCCESS;
    }
    for (size_t r = 0; r < json_array_size(rows); r++)
        for (size_t c = 0; c < columns->times; c++)
            TRY(show_locally(json_array_get(rows, r), columns->all[columns->first_time + c].member, err));
    return api_print_rows(invocation, rows, columns->all, columns->count, err);
}
