/* Rows of events and counts as CSV. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

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
