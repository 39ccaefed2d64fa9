#include "base/program.h"

#include <assert.h>

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

static void print_group(FILE *out, const struct option_group *group)
{
    char left[SPELLING_SIZE];

    (void)fputs("\n", out);
    if (group->title[0] != '\0') (void)fprintf(out, "%s\n", group->title);
    for (size_t i = 0; i < group->count; i++) {
        option_spelling(&group->rows[i], false, left, sizeof left);
        (void)fprintf(out, "  %-23s %s\n", left, group->rows[i].help);
    }
}

void program_print_help(FILE *out, const struct program *program)
{
    for (size_t i = 0; program->synopses[i] != NULL; i++)
        (void)fprintf(out, "%s %s %s\n", i == 0 ? "Usage:" : "  or: ", program->name, program->synopses[i]);
    (void)fprintf(out, "%s\n", program->about);
    for (size_t i = 0; i < program->group_count; i++) print_group(out, &program->groups[i]);
    (void)fputs("\n", out);
    if (program->closing[0] != '\0') (void)fprintf(out, "%s\n", program->closing);
    (void)fprintf(out, "Exit status: %s\n", program->exit_status);
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
