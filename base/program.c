#include "base/program.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

#define SPELLING_SIZE 64 /* more than "--", the longest name and its argument need */
#define LETTERS_END   128

void option_spelling(const struct option_row *row, bool with_letter, char *text_out, size_t room)
{
    const char *argument = row->argument == NULL ? "" : row->argument;
    const char *equals = row->argument == NULL ? "" : "=";

    if (!with_letter) (void)snprintf(text_out, room, "--%s%s%s", row->name, equals, argument);
    else if (row->letter < LETTERS_END) (void)snprintf(text_out, room, "-%c, --%s%s%s", row->letter, row->name, equals, argument);
    else (void)snprintf(text_out, room, "    --%s%s%s", row->name, equals, argument);
}

static bool ends_line(const char *at)
{
    return *at == '\n' && islower((unsigned char)at[1]) == 0;
}

void program_print_folded(FILE *out, const char *text, size_t column, size_t indent)
{
    bool is_first = true; /* word of a line */

    while (*text != '\0') {
        const size_t length = strcspn(text, " \n");
        const size_t wanted = length + (is_first ? 0 : 1);
        if (!is_first && column + wanted > PROGRAM_COLUMNS) {
            (void)fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
            is_first = true;
        }
        (void)fprintf(out, "%s%.*s", is_first ? "" : " ", (int)length, text);
        column += length + (is_first ? 0 : 1);
        is_first = false;
        text += length;
        if (ends_line(text)) {
            (void)fprintf(out, "\n%*s", text[1] == '\0' ? 0 : (int)indent, "");
            column = indent;
            is_first = true;
        }
        if (*text != '\0') text++;
    }
    (void)fputc('\n', out);
}

void program_print_row(FILE *out, const char *left, size_t width, const char *help)
{
    const size_t length = strlen(left), indent = 2 + width + 1;

    (void)fprintf(out, "  %-*s ", (int)width, left);
    if (length > width) (void)fprintf(out, "\n%*s", (int)indent, "");
    program_print_folded(out, help, indent, indent);
}

static void print_group(FILE *out, const struct option_group *group)
{
    char left[SPELLING_SIZE];

    (void)fputs("\n", out);
    if (group->title[0] != '\0') program_print_folded(out, group->title, 0, 0);
    for (size_t i = 0; i < group->count; i++) {
        option_spelling(&group->rows[i], false, left, sizeof left);
        program_print_row(out, left, 23, group->rows[i].help);
    }
}

void program_print_help(FILE *out, const struct program *program)
{
    for (size_t i = 0; program->synopses[i] != NULL; i++) {
        const int length = fprintf(out, "%s %s ", i == 0 ? "Usage:" : "  or: ", program->name);
        program_print_folded(out, program->synopses[i], length < 0 ? 0 : (size_t)length, 10);
    }
    program_print_folded(out, program->about, 0, 0);
    for (size_t i = 0; i < program->group_count; i++) print_group(out, &program->groups[i]);
    (void)fputs("\n", out);
    if (program->closing[0] != '\0') program_print_folded(out, program->closing, 0, 0);
    (void)fputs("Exit status: ", out);
    program_print_folded(out, program->exit_status, sizeof "Exit status: " - 1, 0);
}

void program_long_options(const struct program *program, struct option *options_out)
{
    size_t count = 0;

    for (size_t g = 0; g < program->group_count; g++)
        for (size_t i = 0; i < program->groups[g].count; i++) {
            const struct option_row *row = &program->groups[g].rows[i];
            assert(count < PROGRAM_OPTIONS_MAX);
            options_out[count++] = (struct option){
                .name = row->name, .has_arg = row->argument == NULL ? no_argument : required_argument, .val = row->letter};
        }
    options_out[count] = (struct option){0};
}
