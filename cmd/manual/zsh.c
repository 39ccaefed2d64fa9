/* zsh completion, in the language of its _arguments. */
#include <string.h>

#include "cmd/manual/manual.h"

/* Inside '...[help]:message:...' a quote would end the text, and so would the characters in `ends`. */
static void put(FILE *out, const char *text, const char *ends)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') (void)fputs("'\\''", out);
        else if (strchr(ends, *text) != NULL) (void)fprintf(out, "\\%c", *text);
        else (void)fputc(*text, out);
    }
}

static void put_option(FILE *out, const struct option_row *row, const char *indent)
{
    const char *equals = row->argument == NULL ? "" : "=", *plus = row->argument == NULL ? "" : "+";

    (void)fprintf(out, " \\\n%s", indent);
    if (row->letter < 128) (void)fprintf(out, "'*'{-%c%s,--%s%s}'", row->letter, plus, row->name, equals);
    else (void)fprintf(out, "'*--%s%s", row->name, equals);
    (void)fputc('[', out);
    put(out, row->help, "[]:\\");
    (void)fputc(']', out);
    if (row->argument != NULL) {
        (void)fputc(':', out);
        put(out, row->argument, ":");
        (void)fputs(names_file(row->argument) ? ":_files" : ":", out);
    }
    (void)fputc('\'', out);
}

static void put_options(FILE *out, const struct option_row *rows, size_t count, const char *indent)
{
    for (size_t i = 0; i < count; i++) put_option(out, &rows[i], indent);
}

void zsh_of_program(FILE *out, const struct program *program)
{
    const bool operand_is_file = strstr(program->synopses[0], "PROOF-FILE") != NULL;

    (void)fprintf(out, "#compdef %s\n# Made while building, from the tables of the programs. Do not edit.\n_arguments -S",
                  program->name);
    for (size_t i = 0; i < program->group_count; i++) put_options(out, program->groups[i].rows, program->groups[i].count, "    ");
    if (operand_is_file)
        (void)fprintf(out, " \\\n    '1:what:(%.*s)' \\\n    '2:PROOF-FILE:_files'", (int)strcspn(program->synopses[0], " "),
                      program->synopses[0]);
    (void)fputc('\n', out);
}

static void put_command(FILE *out, const struct command *command)
{
    size_t global_count = 0;
    const struct option_row *global = commands_global_options(&global_count);
    const char *last = strrchr(command->operands, ' ');
    int words = 1;

    for (const char *space = command->name; (space = strchr(space, ' ')) != NULL; space++) words++;
    (void)fprintf(out, "'%s '*)\n    shift %d words; (( CURRENT -= %d ))\n    _arguments -s -S", command->name, words, words);
    put_options(out, command->options, command->option_count, "        ");
    put_options(out, global, global_count, "        ");
    (void)fputs(" \\\n        '*:", out);
    put(out, command->operands, ":");
    const bool files = names_file(command->operands) || (last != NULL && names_file(last + 1));
    (void)fprintf(out, ":%s' ;;\n", files ? "_files" : "");
}

static void put_prefix(FILE *out, const char *prefix)
{
    struct words words;

    words_after(prefix, &words);
    (void)fprintf(out, "'%s') compadd --", prefix);
    for (size_t i = 0; i < words.count; i++) (void)fprintf(out, " %s", words.word[i]);
    (void)fputs(" ;;\n", out);
}

void zsh_of_client(FILE *out)
{
    size_t count = 0;
    const struct command *table = commands_table(&count);
    struct words words;

    (void)fputs("#compdef sijil\n# Made while building, from the tables of the programs. Do not edit.\n"
                "case \"${(j: :)words[2,CURRENT-1]} \" in\n",
                out);
    for (size_t i = 0; i < count; i++) put_command(out, &table[i]);
    each_prefix(put_prefix, out);
    words_after("", &words);
    (void)fputs("' ') compadd --", out);
    for (size_t i = 0; i < words.count; i++) (void)fprintf(out, " %s", words.word[i]);
    (void)fputs(" --help --version ;;\nesac\n", out);
}
