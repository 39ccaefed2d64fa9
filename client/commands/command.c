#include "client/commands/command.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"
#include "client/address.h"
#include "client/commands/help.h"
#include "client/jobs.h"
#include "client/terminal.h"
#include "crypto/digest.h"
#include "crypto/ecdsa.h"

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
    report_explain(&invocation->report, label, value);
}

struct result jobs_option(const struct invocation *invocation, unsigned *parallel_out, struct error *err)
{
    const char *text = invocation_option(invocation, 'J');
    uint64_t parallel = JOBS_DEFAULT;

    if (text != NULL && (!text_to_u64(bytes_of_text(text), JOBS_MAX, &parallel) || parallel == 0))
        return failure(err, ERROR_INVALID, "--jobs %.40s: a number from 1 to %d is expected", text, JOBS_MAX);
    *parallel_out = (unsigned)parallel;
    return SUCCESS;
}

enum exit_code exit_code_of(const struct invocation *invocation, const struct error *err)
{
    if (err->kind != ERROR_NONE && invocation->ends_with != EXIT_DONE) return invocation->ends_with;
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
        if (words + 1 >= argc || strlen(argv[words + 1]) != length || strncmp(argv[words + 1], name, length) != 0) return 0;
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
            .name = rows[i].name, .has_arg = rows[i].argument == NULL ? no_argument : required_argument, .val = rows[i].letter};
        if (rows[i].letter >= 128) continue;
        spellings->shorts[spellings->short_length++] = (char)rows[i].letter;
        if (rows[i].argument != NULL) spellings->shorts[spellings->short_length++] = ':';
    }
}

/* The name of an operand: "REFERENCE" for the last one of "FILE... REFERENCE". */
static const char *operand_name(const struct command *command, unsigned number, char name_out[64])
{
    const char *word = command->operands;

    for (unsigned i = 0; i < number && strchr(word, ' ') != NULL; i++) word = strchr(word, ' ') + 1;
    (void)snprintf(name_out, 64, "%.*s", (int)strcspn(word, " "), word);
    return name_out;
}

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* If there are too few operands, each of them may be the address. */
static bool is_address(const struct command *command, unsigned number, unsigned count, const char *name)
{
    if (count < command->least) return true;
    if (begins(command->operands, "FILE...")) return number + 1 == count;
    return begins(name, "HOST") || begins(name, "REFERENCE") || begins(name, "REPOSITORY");
}

/* "USER:SECRET@HOST" as another operand. A file may have such a name if it exists; subjects and JSON may have any letters. */
static bool is_misplaced(const char *operand, const char *name)
{
    if (strstr(operand, "://") != NULL) return url_names_user(operand);
    if (begins(name, "PRINCIPAL") || begins(name, "JSON")) return false;
    return address_names_user(operand) && strcspn(operand, ":") < strcspn(operand, "@") && access(operand, F_OK) != 0;
}

static struct result check_addresses(const struct invocation *invocation, struct error *err)
{
    char name[64];

    for (unsigned i = 0; i < invocation->operand_count; i++) {
        const char *operand = invocation->operands[i];
        (void)operand_name(invocation->command, i, name);
        if (is_address(invocation->command, i, invocation->operand_count, name) || is_misplaced(operand, name))
            TRY(address_check(operand, err));
    }
    return SUCCESS;
}

static struct result check_operands(const struct invocation *invocation, struct error *err)
{
    const struct command *command = invocation->command;
    const unsigned count = invocation->operand_count;
    char name[64];

    TRY(check_addresses(invocation, err));
    if (count > command->most)
        return failure(err, ERROR_INVALID, "%s takes %s; %u more came", command->name, command->operands, count - command->most);
    if (count >= command->least) return SUCCESS;
    if (count > 0 && strcmp(operand_name(command, 0, name), "FILE...") == 0)
        return failure(err, ERROR_INVALID, "%s takes %s: both are needed, only '%.100s' came", command->name, command->operands,
                       invocation->operands[0]);
    return failure(err, ERROR_INVALID, "%s is missing", operand_name(command, count, name));
}

/* getopt_long() only gives '?' or ':' and the position. */
static struct result wrong_option(struct invocation *invocation, const char *given, int letter, struct error *err)
{
    const char *nearest = help_nearest_option(invocation->command, given);
    const int length = (int)strcspn(given, "="); /* the part after it may be a secret: --password=... */
    const int shown = length < 60 ? length : 60;

    invocation->line_is_wrong = true;
    if (letter == ':') return failure(err, ERROR_INVALID, "the option %.*s wants a value behind it", shown, given);
    if (optopt != 0 && strncmp(given, "--", 2) == 0 && strchr(given, '=') != NULL)
        return failure(err, ERROR_INVALID, "the option %.*s takes no value", shown, given);
    if (optopt != 0) return failure(err, ERROR_INVALID, "there is no option -%c", optopt);
    if (nearest == NULL)
        return failure(err, ERROR_INVALID, "there is no option '%.*s', or more than one begins so", shown, given);
    return failure(err, ERROR_INVALID, "there is no option '%.*s'; did you mean '--%s'?", shown, given, nearest);
}

/* A key's name (a thumbprint in base64url) may begin with '-', and is not an option then. getopt_long() sees this word in its place. */
static char key_stand_in[] = "KEY";

static bool is_key_name(const char *word)
{
    uint8_t hash[SHA256_SIZE];

    return word[0] == '-' && text_from_base64_exactly(BASE64_URL, bytes_of_text(word), hash, sizeof hash);
}

/* The name, or NULL if there is none: no command takes two. */
static char *hide_key_name(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!is_key_name(argv[i])) continue;
        char *name = argv[i];
        argv[i] = key_stand_in;
        return name;
    }
    return NULL;
}

static void show_key_name(int argc, char **argv, char *name)
{
    for (int i = 1; i < argc; i++)
        if (argv[i] == key_stand_in) argv[i] = name;
}

static struct result parse(struct invocation *invocation, int argc, char **argv, struct error *err)
{
    char *key_name = hide_key_name(argc, argv);
    struct spellings spellings = {.shorts = ":", .short_length = 1};
    size_t global_count = 0;
    const struct option_row *global = commands_global_options(&global_count);

    spell(&spellings, invocation->command->options, invocation->command->option_count);
    spell(&spellings, global, global_count);
    optind = 1;
    opterr = 0;
    for (int letter; (letter = getopt_long(argc, argv, spellings.shorts, spellings.longs, NULL)) != -1;) {
        if (letter == '?' || letter == ':') return wrong_option(invocation, argv[optind - 1], letter, err);
        if (invocation->value_count == OPTION_VALUES_MAX)
            return line_check(invocation, failure(err, ERROR_LIMIT, "more than %d options", OPTION_VALUES_MAX));
        invocation->values[invocation->value_count++] = (struct option_value){.letter = letter,
                                                                              .value = optarg == NULL           ? ""
                                                                                       : optarg == key_stand_in ? key_name
                                                                                                                : optarg};
    }
    show_key_name(argc, argv, key_name);
    invocation->operands = (const char *const *)(argv + optind);
    invocation->operand_count = (unsigned)(argc - optind);
    if (invocation_option(invocation, 'h') != NULL) return SUCCESS;
    return line_check(invocation, check_operands(invocation, err));
}

static struct result parse_or_advise(struct invocation *invocation, int argc, char **argv, struct error *err)
{
    const struct result parsed = parse(invocation, argc, argv, err);
    char text[200]; /* a command's name and operands */

    if (parsed.ok) return parsed;
    (void)snprintf(text, sizeof text, "sijil %s [OPTION...] %s", invocation->command->name, invocation->command->operands);
    invocation_explain(invocation, "usage", text);
    (void)snprintf(text, sizeof text, "sijil %s --help", invocation->command->name);
    invocation_explain(invocation, "try", text);
    return parsed;
}

/* Lines "  label  value" as members. If a label repeats, the first value is the member; `detail` has all of them. */
static struct result add_members(json_t *object, const char *explanation, struct error *err)
{
    for (const char *line = explanation; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        char label[16], value[4096]; /* as long as an explanation */
        const char *name = line + strspn(line, " ");
        const size_t length = strcspn(name, " "), end = strcspn(line, "\n");
        const char *text = name + length + strspn(name + length, " ");
        (void)snprintf(label, sizeof label, "%.*s", (int)length, name);
        (void)snprintf(value, sizeof value, "%.*s", (int)(line + end - text), text);
        if (strcmp(label, "message") == 0) (void)snprintf(label, sizeof label, "said"); /* the registry's whole message */
        if (json_object_get(object, label) != NULL) continue;
        if (json_object_set_new(object, label, json_string(value)) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    }
    return SUCCESS;
}

static struct result write_report(const struct invocation *invocation, const struct error *told, struct buffer *text,
                                  struct error *err)
{
    OWNED_JSON object = json_pack("{s:s,s:s,s:s}", "error", error_kind_name(told->kind), "message", told->message, "detail",
                                  invocation->report.explanation);

    if (object == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    TRY(add_members(object, invocation->report.explanation, err));
    return json_write_canonical(text, object, err);
}

static void report_json(const struct invocation *invocation, const struct error *err)
{
    struct buffer OWNED_BUFFER text =
        BUFFER(16 * sizeof invocation->report.explanation); /* each letter may be escaped, and the other members need room */
    struct error ignored = {0};

    if (write_report(invocation, err, &text, &ignored).ok) (void)fprintf(stderr, "%s\n", buffer_text(&text));
    else /* out of memory for the text, so only the kind is shown */
        (void)fprintf(stderr, "{\"error\":\"%s\",\"message\":\"\",\"detail\":\"\"}\n", error_kind_name(err->kind));
}

void command_report(const struct invocation *invocation, const struct error *err)
{
    struct error shown = *err; /* often text of the registry */

    address_hide(shown.message);
    terminal_sanitize(shown.message);
    if (invocation->json) {
        report_json(invocation, &shown);
        return;
    }
    (void)fprintf(stderr, "sijil: %s\n", shown.message);
    if (invocation->report.explanation[0] != '\0') (void)fprintf(stderr, "%s\n", invocation->report.explanation);
}

/* Works also if the command line can't be parsed. */
static bool wants_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "-j") == 0) return true;
    return false;
}

static struct result run(struct invocation *invocation, int argc, char **argv, struct error *err)
{
    int words = 0;

    invocation->command = command_find(argc, argv, &words);
    if (invocation->command == NULL) return line_check(invocation, help_without_command(invocation, argc - 1, argv + 1, err));
    argv[words] = argv[0];
    TRY(parse_or_advise(invocation, argc - words, argv + words, err));
    if (invocation_option(invocation, 'h') != NULL) {
        help_command(stdout, invocation->command);
        return SUCCESS;
    }
    invocation->json = invocation_option(invocation, 'j') != NULL;
    invocation->verbose = invocation_option(invocation, 'v') != NULL;
    invocation->wide = invocation_option(invocation, 'Z') != NULL;
    return invocation->command->run(invocation, err);
}

/* Makes sure that all output was written. */
static struct result finish(struct error *err)
{
    errno = 0;
    if (fflush(stdout) == 0 && ferror(stdout) == 0) return SUCCESS;
    return failure(err, ERROR_INVALID, "can't write to standard output%s%s", errno == 0 ? "" : ": ",
                   errno == 0 ? "" : strerror(errno));
}

int client_main(int argc, char **argv)
{
    static struct invocation invocation; /* static because it is large */
    struct error err = {0};
    const char *first = argc >= 2 ? argv[1] : "";
    struct result done = SUCCESS;

    invocation.json = wants_json(argc, argv);
    if (strcmp(first, "--version") == 0) (void)puts("sijil " SIJIL_VERSION);
    else if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0)
        done = line_check(&invocation, help_level(&invocation, argc - 2, argv + 2, &err));
    else done = run(&invocation, argc, argv, &err);
    ecdsa_key_free(invocation.act_key);
    if (done.ok) done = finish(&err);
    if (done.ok) return EXIT_DONE;
    (void)fflush(stdout);
    command_report(&invocation, &err);
    return (int)exit_code_of(&invocation, &err);
}
