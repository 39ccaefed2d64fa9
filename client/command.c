#include "client/command.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "client/help.h"
#include "client/terminal.h"

const char *invocation_option(const struct invocation *invocation, int letter)
{
    const char *value = NULL;

    for (unsigned i = 0; i < invocation->value_count; i++)
        if (invocation->values[i].letter == letter) value = invocation->values[i].value;
    return value;
}

const char *invocation_next_option(const struct invocation *invocation, int letter, unsigned *at)
{
    while (*at < invocation->value_count) {
        const struct option_value *value = &invocation->values[(*at)++];
        if (value->letter == letter) return value->value;
    }
    return NULL;
}

struct result line_check(struct invocation *invocation, struct result checked)
{
    if (!checked.ok) invocation->line_is_wrong = true;
    return checked;
}

void invocation_explain(struct invocation *invocation, const char *label, const char *value)
{
    const size_t used = strlen(invocation->explanation);

    if (value == NULL || value[0] == '\0') return;
    (void)snprintf(invocation->explanation + used, sizeof invocation->explanation - used, "%s  %-12s %s",
                   used == 0 ? "" : "\n", label, value);
    terminal_tame(invocation->explanation + used + (used == 0 ? 0 : 1));
}

enum exit_code exit_code_of(const struct invocation *invocation, const struct error *err)
{
    switch (err->kind) {
    case ERROR_NONE: return EXIT_DONE;
    case ERROR_NOT_FOUND: return EXIT_NOT_FOUND;
    case ERROR_DENIED: return EXIT_DENIED;
    case ERROR_UNAVAILABLE:
    case ERROR_UNCERTAIN: return EXIT_UNAVAILABLE;
    case ERROR_CORRUPT:
    case ERROR_FORKED: return EXIT_DAMAGED;
    case ERROR_INVALID:
    case ERROR_LIMIT: return invocation->line_is_wrong ? EXIT_USAGE : EXIT_FAILED;
    case ERROR_CONFLICT:
    case ERROR_FULL:
    case ERROR_NO_MEMORY: break;
    }
    return EXIT_FAILED;
}

/* How many of the first words are the command's name; 0 if it is another command. */
static int words_of(const struct command *command, int argc, char **argv)
{
    const char *name = command->name;
    int words = 0;

    while (*name != '\0') {
        const size_t length = strcspn(name, " ");
        if (words + 1 >= argc || strlen(argv[words + 1]) != length ||
            strncmp(argv[words + 1], name, length) != 0)
            return 0;
        words++;
        name += length;
        name += strspn(name, " ");
    }
    return words;
}

static const struct command *command_find(int argc, char **argv, int *words_out)
{
    size_t count = 0;
    const struct command *table = commands_table(&count), *found = NULL;

    *words_out = 0;
    for (size_t i = 0; i < count; i++) {
        const int words = words_of(&table[i], argc, argv);
        if (words <= *words_out) continue;
        *words_out = words;
        found = &table[i];
    }
    return found;
}

/* getopt's two spellings of all options of a command. */
struct spellings {
    struct option longs[PROGRAM_OPTIONS_MAX + 1];
    char shorts[2 * PROGRAM_OPTIONS_MAX + 2];
    size_t long_count, short_length;
};

static void spell(struct spellings *spellings, const struct option_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert(spellings->long_count < PROGRAM_OPTIONS_MAX);
        spellings->longs[spellings->long_count++] = (struct option){
            .name = rows[i].name, .has_arg = rows[i].argument == NULL ? no_argument : required_argument,
            .val = rows[i].letter};
        if (rows[i].letter >= 128) continue;
        spellings->shorts[spellings->short_length++] = (char)rows[i].letter;
        if (rows[i].argument != NULL) spellings->shorts[spellings->short_length++] = ':';
    }
}

/* Reads options and operands; 0 to go on, or an exit code (with *stop_out set). */
static enum exit_code parse(struct invocation *invocation, int argc, char **argv, bool *stop_out)
{
    struct spellings spellings = {0};
    size_t global_count = 0;
    const struct option_row *global = commands_global_options(&global_count);

    *stop_out = true;
    spell(&spellings, invocation->command->options, invocation->command->option_count);
    spell(&spellings, global, global_count);
    optind = 1;
    for (int letter; (letter = getopt_long(argc, argv, spellings.shorts, spellings.longs, NULL)) != -1;) {
        if (letter == '?') { /* getopt_long has said why */
            help_option(stderr, invocation->command, argv[optind - 1]);
            return EXIT_USAGE;
        }
        if (letter == 'h') {
            help_command(stdout, invocation->command);
            return EXIT_DONE;
        }
        if (invocation->value_count == OPTION_VALUES_MAX) {
            (void)fprintf(stderr, "sijil: more than %d options\n", OPTION_VALUES_MAX);
            return EXIT_USAGE;
        }
        invocation->values[invocation->value_count++] =
            (struct option_value){.letter = letter, .value = optarg == NULL ? "" : optarg};
    }
    for (; optind < argc && invocation->operand_count < OPERANDS_MAX; optind++)
        invocation->operands[invocation->operand_count++] = argv[optind];
    if (optind < argc || invocation->operand_count < invocation->command->least ||
        invocation->operand_count > invocation->command->most) {
        (void)fprintf(stderr, "usage: sijil %s [OPTION...] %s\n`sijil %s --help` says more\n", invocation->command->name,
                      invocation->command->operands, invocation->command->name);
        return EXIT_USAGE;
    }
    *stop_out = false;
    return EXIT_DONE;
}

static void report_json(const struct invocation *invocation, const struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(8 * sizeof invocation->explanation); /* each letter escaped, and the rest */
    struct error ignored = {0};

    if (buffer_format(&text, &ignored, "{\"error\":\"%s\",\"message\":", error_kind_name(err->kind)).ok &&
        json_write_string(&text, bytes_of_text(err->message), &ignored).ok &&
        buffer_add_text(&text, ",\"detail\":", &ignored).ok &&
        json_write_string(&text, bytes_of_text(invocation->explanation), &ignored).ok &&
        buffer_add_text(&text, "}\n", &ignored).ok)
        (void)fputs(buffer_text(&text), stderr);
    else /* without memory for the words, the kind is said */
        (void)fprintf(stderr, "{\"error\":\"%s\",\"message\":\"\",\"detail\":\"\"}\n", error_kind_name(err->kind));
}

void command_report(const struct invocation *invocation, const struct error *err)
{
    struct error shown = *err; /* often a registry's words */

    terminal_tame(shown.message);
    if (invocation->json) {
        report_json(invocation, &shown);
        return;
    }
    (void)fprintf(stderr, "sijil: %s\n", shown.message);
    if (invocation->explanation[0] != '\0') (void)fprintf(stderr, "%s\n", invocation->explanation);
}

int client_main(int argc, char **argv)
{
    static struct invocation invocation; /* large, and there is one a process */
    struct error err = {0};
    int words = 0;
    bool stop = false;

    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        (void)puts("sijil " SIJIL_VERSION);
        return EXIT_DONE;
    }
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0))
        return help_level(stdout, argc - 2, argv + 2);
    invocation.command = command_find(argc, argv, &words);
    if (invocation.command == NULL) return help_without_command(argc - 1, argv + 1);
    argv[words] = argv[0];
    const enum exit_code parsed = parse(&invocation, argc - words, argv + words, &stop);
    if (stop) return (int)parsed;
    invocation.json = invocation_option(&invocation, 'j') != NULL;
    invocation.verbose = invocation_option(&invocation, 'v') != NULL;
    if (invocation.command->run(&invocation, &err).ok) return fflush(stdout) == 0 ? EXIT_DONE : EXIT_FAILED;
    command_report(&invocation, &err);
    return (int)exit_code_of(&invocation, &err);
}
