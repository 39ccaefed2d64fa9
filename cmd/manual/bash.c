/* bash completion. An option with a value is offered with its "=". bash splits a word at "=", so the script joins the parts first. */
#include <ctype.h>
#include <string.h>

#include "cmd/manual/manual.h"

static const char beginning[] = "# Made while building, from the tables of the programs. Do not edit.\n"
                                "# shellcheck shell=bash disable=SC2207\n";

/* $1: the words to offer; $2: whether to offer files, too. */
static const char tail[] =
    "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    [ \"$current\" != '=' ] || current=\n"
    "    [ \"$before\" != '=' ] || before=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    if [[ \" $files \" == *\" $before \"* ]]; then COMPREPLY=($(compgen -f -- \"$current\")); return; fi\n"
    "    if [[ \" $values \" == *\" $before \"* ]]; then return; fi\n"
    "    COMPREPLY=($(compgen -W \"$offered\" -- \"$current\"))\n"
    "    if [ \"${#COMPREPLY[@]}\" -eq 1 ] && [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi\n"
    "    if [ \"$operands\" = files ] && [[ $current != -* ]]; then COMPREPLY+=($(compgen -f -- \"$current\")); fi\n";

static void function_name(FILE *out, const char *name)
{
    (void)fputc('_', out);
    for (; *name != '\0'; name++) (void)fputc(isalnum((unsigned char)*name) ? *name : '_', out);
}

static void put_names(FILE *out, const struct option_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) (void)fprintf(out, " --%s%s", rows[i].name, rows[i].argument == NULL ? "" : "=");
}

/* The spellings of options whose value is a file (`file`), or is not. */
static void put_with_value(FILE *out, const struct option_row *rows, size_t count, bool file)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].argument == NULL || names_file(rows[i].argument) != file) continue;
        (void)fprintf(out, " --%s", rows[i].name);
        if (rows[i].letter < 128) (void)fprintf(out, " -%c", rows[i].letter);
    }
}

static void put_end(FILE *out, const char *name)
{
    (void)fputs(tail, out);
    (void)fputs("}\ncomplete -F ", out);
    function_name(out, name);
    (void)fprintf(out, " %s\n", name);
}

void bash_of_program(FILE *out, const struct program *program)
{
    bool operand_is_file = strstr(program->synopses[0], "PROOF-FILE") != NULL;

    (void)fputs(beginning, out);
    function_name(out, program->name);
    (void)fputs("() {\n    local offered='", out);
    if (operand_is_file) (void)fprintf(out, "%.*s", (int)strcspn(program->synopses[0], " "), program->synopses[0]);
    for (size_t i = 0; i < program->group_count; i++) put_names(out, program->groups[i].rows, program->groups[i].count);
    (void)fputs("' files='", out);
    for (size_t i = 0; i < program->group_count; i++)
        put_with_value(out, program->groups[i].rows, program->groups[i].count, true);
    (void)fputs("' values='", out);
    for (size_t i = 0; i < program->group_count; i++)
        put_with_value(out, program->groups[i].rows, program->groups[i].count, false);
    (void)fprintf(out, "' operands=%s\n", operand_is_file ? "files" : "none");
    put_end(out, program->name);
}

static void put_command(FILE *out, const struct command *command)
{
    size_t global_count = 0;
    const struct option_row *global = commands_global_options(&global_count);
    const char *last = strrchr(command->operands, ' ');

    (void)fprintf(out, "    '%s '*)\n        offered='", command->name);
    put_names(out, command->options, command->option_count);
    put_names(out, global, global_count);
    (void)fputs("'\n        files='", out);
    put_with_value(out, command->options, command->option_count, true);
    (void)fputs("'\n        values='", out);
    put_with_value(out, command->options, command->option_count, false);
    const bool files = names_file(command->operands) || (last != NULL && names_file(last + 1));
    (void)fprintf(out, "'\n        operands=%s ;;\n", files ? "files" : "none");
}

static void put_prefix(FILE *out, const char *prefix)
{
    struct words words;

    words_after(prefix, &words);
    (void)fprintf(out, "    '%s') offered='", prefix);
    for (size_t i = 0; i < words.count; i++) (void)fprintf(out, " %s", words.word[i]);
    (void)fputs("' ;;\n", out);
}

void bash_of_client(FILE *out)
{
    size_t count = 0;
    const struct command *table = commands_table(&count);
    struct words words;

    (void)fputs(beginning, out);
    (void)fputs("_sijil() {\n    local offered='' files='' values='' operands=none\n"
                "    case \"${COMP_WORDS[*]:1:COMP_CWORD-1} \" in\n",
                out);
    for (size_t i = 0; i < count; i++) put_command(out, &table[i]);
    each_prefix(put_prefix, out);
    words_after("", &words);
    (void)fputs("    ' ') offered='", out);
    for (size_t i = 0; i < words.count; i++) (void)fprintf(out, "%s ", words.word[i]);
    (void)fputs("--help --version' ;;\n    esac\n", out);
    put_end(out, "sijil");
}
