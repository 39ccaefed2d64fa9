#include "client/commands/help.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/typo.h"
#include "client/address.h"
#include "client/terminal.h"

#define NAME_MAX_LETTERS 64 /* of a command or an option: all in client/commands/commands.def are shorter */

static void print_options(FILE *out, const struct option_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char left[64]; /* "-o, --" and the longest name and argument in use, with room */
        option_spelling(&rows[i], true, left, sizeof left);
        program_print_row(out, left, 28, rows[i].help);
    }
}

void help_command(FILE *out, const struct command *command)
{
    size_t count = 0;
    const struct option_row *global = commands_global_options(&count);

    const int length = fprintf(out, "usage: sijil %s [OPTION...] ", command->name);
    program_print_folded(out, command->operands, length < 0 ? 0 : (size_t)length, 4);
    program_print_folded(out, command->summary, 0, 0);
    if (command->detail[0] != '\0') {
        (void)fputc('\n', out);
        program_print_folded(out, command->detail, 0, 0);
    }
    (void)fputc('\n', out);
    print_options(out, command->options, command->option_count);
    print_options(out, global, count);
}

/* "admin robot" for {"admin", "robot", "--help"}: ends at the first word that is an option. */
static void join(int count, char **words, char joined[NAME_MAX_LETTERS])
{
    size_t length = 0;

    joined[0] = '\0';
    for (int i = 0; i < count && words[i][0] != '-'; i++) {
        const int more = snprintf(joined + length, NAME_MAX_LETTERS - length, "%s%s", i == 0 ? "" : " ", words[i]);
        if (more < 0 || (size_t)more >= NAME_MAX_LETTERS - length) break;
        length += (size_t)more;
    }
}

static bool begins_with(const char *name, const char *level)
{
    const size_t length = strlen(level);

    return length == 0 || (strncmp(name, level, length) == 0 && (name[length] == ' ' || name[length] == '\0'));
}

/* Counts the commands that begin with the level, and prints them if `out` is given. */
static size_t list_level(FILE *out, const char *level)
{
    size_t count = 0, found = 0;
    const struct command *table = commands_table(&count);

    for (size_t i = 0; i < count; i++) {
        if (!begins_with(table[i].name, level)) continue;
        found++;
        if (out != NULL) program_print_row(out, table[i].name, 28, table[i].summary);
    }
    return found;
}

static void print_level(FILE *out, const char *level)
{
    (void)fprintf(out, "usage: sijil %s%sCOMMAND [OPTION...] [OPERAND...]\n", level, level[0] == '\0' ? "" : " ");
    if (level[0] == '\0') (void)fputs("Pushes models and datasets to a Sijil registry, pulls them, asks who did what.\n", out);
    (void)fputc('\n', out);
    (void)list_level(out, level);
    (void)fputs("\n`sijil COMMAND --help` says more.\n"
                "REFERENCE is HOST[:PORT]/ORGANISATION/PROJECT/REPOSITORY[:TAG|@DIGEST].\n"
                "With both, the digest counts.\n",
                out);
    if (level[0] != '\0') return;
    (void)fputs("SIJIL_USERNAME, SIJIL_PASSWORD and SIJIL_CA_FILE replace a stored login.\n"
                "SIJIL_PROXY=http://HOST:PORT names a proxy; HTTPS_PROXY is not used.\n\n"
                "examples:\n" CLIENT_EXAMPLES,
                out);
}

static int words_in(const char *name)
{
    int words = 1;

    for (; *name != '\0'; name++) words += *name == ' ';
    return words;
}

/* The name of the same command in other programs. */
static const char *other_name(const char *given)
{
    static const char *const names[][2] = {{"list", "ls"}, {"version", "--version"}, {"rm", "delete"},   {"remove", "delete"},
                                           {"cp", "copy"}, {"show", "inspect"},      {"upload", "push"}, {"download", "pull"}};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(given, names[i][0]) == 0) return names[i][1];
    return NULL;
}

static const char *nearest_command(int count, char **words)
{
    size_t commands = 0;
    const struct command *table = commands_table(&commands);
    char given[NAME_MAX_LETTERS];
    unsigned best = TYPO_BEST;

    join(count < 1 ? count : 1, words, given);
    const char *nearest = other_name(given);
    if (nearest != NULL) return nearest;
    for (size_t i = 0; i < commands; i++) {
        const int wanted = words_in(table[i].name);
        join(count < wanted ? count : wanted, words, given);
        if (typo_is_near(given, table[i].name, &best)) nearest = table[i].name;
    }
    return nearest;
}

struct result help_level(const struct invocation *invocation, int count, char **words, struct error *err)
{
    char level[NAME_MAX_LETTERS];
    size_t commands = 0;
    const struct command *table = commands_table(&commands);

    join(count, words, level);
    for (size_t i = 0; i < commands; i++)
        if (strcmp(table[i].name, level) == 0) {
            help_command(stdout, &table[i]);
            return SUCCESS;
        }
    if (list_level(NULL, level) == 0) return help_without_command(invocation, count, words, err);
    print_level(stdout, level);
    return SUCCESS;
}

/* "admin organisation, admin project, ..." of "admin" */
static void next_words(const char *level, char *text, size_t room)
{
    const size_t skipped = strlen(level) + (level[0] == '\0' ? 0 : 1);
    size_t count = 0, used = 0;
    const struct command *table = commands_table(&count);

    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (!begins_with(table[i].name, level)) continue;
        const char *word = table[i].name + skipped;
        char next[NAME_MAX_LETTERS];
        (void)snprintf(next, sizeof next, "%.*s", (int)strcspn(word, " "), word);
        if (strstr(text, next) != NULL) continue;
        used += (size_t)snprintf(text + used, room - used, "%s%s", used == 0 ? "" : ", ", next);
        if (used >= room) return;
    }
}

/* The word may have a secret behind its "=". */
static struct result option_first(const char *word, struct error *err)
{
    static const char *const names[] = {"help", "version", "json", "verbose", "wide"};
    const int length = (int)strcspn(word, "=") < 60 ? (int)strcspn(word, "=") : 60;
    char given[NAME_MAX_LETTERS], option[NAME_MAX_LETTERS];
    const char *nearest = NULL;
    unsigned best = TYPO_BEST;

    (void)snprintf(option, sizeof option, "%.*s", length, word);
    terminal_sanitize(option);
    (void)snprintf(given, sizeof given, "%s", option + strspn(option, "-"));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (typo_is_near(given, names[i], &best)) nearest = names[i];
    if (nearest == NULL || best == 0)
        return failure(err, ERROR_INVALID, "options stand behind the command: sijil COMMAND %s", option);
    return failure(err, ERROR_INVALID, "there is no option '%s'; did you mean '--%s'?", option, nearest);
}

struct result help_without_command(const struct invocation *invocation, int count, char **words, struct error *err)
{
    char given[NAME_MAX_LETTERS], next[200];
    int known = 0;

    if (count > 0 && words[0][0] == '-' && words[0][1] != '\0') return option_first(words[0], err);

    join(count, words, given);
    if (list_level(NULL, given) > 0 && count > 0 && strcmp(words[count - 1], "--help") == 0) {
        print_level(stdout, given);
        return SUCCESS;
    }
    next_words(given, next, sizeof next);
    if (next[0] != '\0' && !invocation->json) print_level(stderr, given);
    if (given[0] == '\0') return failure(err, ERROR_INVALID, "a command is missing: %s", next);
    if (next[0] != '\0') return failure(err, ERROR_INVALID, "a word is missing behind '%s': %s", given, next);
    for (int i = 0; i < count; i++)
        TRY(address_check(words[i], err)); /* a reference without a command may hold a secret, so it is not repeated */
    for (known = 0; known < count;
         known++) { /* up to the first word that no command has; operands are not checked for typing errors */
        join(known + 1, words, given);
        if (list_level(NULL, given) == 0) break;
    }
    terminal_sanitize(given);
    const char *nearest = nearest_command(count, words);
    if (nearest != NULL) return failure(err, ERROR_INVALID, "there is no command '%s'; did you mean '%s'?", given, nearest);
    return failure(err, ERROR_INVALID, "there is no command '%s'; see sijil --help", given);
}

static const char *nearest_option(const struct option_row *rows, size_t count, const char *given, unsigned *best)
{
    const char *nearest = NULL;

    for (size_t i = 0; i < count; i++)
        if (typo_is_near(given, rows[i].name, best)) nearest = rows[i].name;
    return nearest;
}

const char *help_nearest_option(const struct command *command, const char *given)
{
    size_t global_count = 0;
    const struct option_row *global = commands_global_options(&global_count);
    char name[NAME_MAX_LETTERS] = "";
    unsigned best = TYPO_BEST;

    if (strncmp(given, "--", 2) == 0) (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(given + 2, "="), given + 2);
    const char *own = nearest_option(command->options, command->option_count, name, &best);
    const char *shared = nearest_option(global, global_count, name, &best);
    return shared != NULL ? shared : own;
}
