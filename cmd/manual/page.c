/* The pages. The text in this file is about things that no table has: files, environment, other pages. */
#include <inttypes.h>
#include <string.h>

#include "base/config.h"
#include "client/commands/help.h"
#include "cmd/manual/manual.h"

#define TITLE_SIZE 160 /* name and operands of a command */

void page_of_program(FILE *out, const struct program *program)
{
    roff_begin(out, program->name, program->section, program->summary);
    roff_section(out, "SYNOPSIS");
    for (size_t i = 0; program->synopses[i] != NULL; i++) {
        if (i > 0) (void)fputs(".br\n", out);
        roff_line(out, 'B', program->name);
        roff_line(out, 'R', program->synopses[i]);
    }
    roff_section(out, "DESCRIPTION");
    roff_line(out, 'R', program->about);
    if (program->closing[0] != '\0') {
        roff_paragraph(out);
        roff_line(out, 'R', program->closing);
    }
    roff_section(out, "OPTIONS");
    for (size_t i = 0; i < program->group_count; i++) {
        if (program->groups[i].title[0] != '\0') {
            roff_paragraph(out);
            roff_line(out, 'R', program->groups[i].title);
        }
        roff_options(out, program->groups[i].rows, program->groups[i].count, false);
    }
    roff_section(out, "EXIT STATUS");
    roff_line(out, 'R', program->exit_status);
    roff_see_also(out, program->see_also);
}

static void put_command(FILE *out, const struct command *command)
{
    char title[TITLE_SIZE];

    (void)snprintf(title, sizeof title, "sijil %s %s%s", command->name, command->option_count == 0 ? "" : "[OPTION...] ",
                   command->operands);
    roff_subsection(out, title);
    (void)snprintf(title, sizeof title, "%s.", command->summary);
    roff_line(out, 'R', title);
    if (command->detail[0] != '\0') roff_line(out, 'R', command->detail);
    roff_options(out, command->options, command->option_count, true);
}

static void put_exit_codes(FILE *out)
{
    static const struct {
        const char *code, *meaning;
    } rows[] = {
#define X(constant, code, meaning) {#code, meaning},
        EXIT_CODES(X)
#undef X
    };

    roff_section(out, "EXIT STATUS");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) roff_item(out, rows[i].code, rows[i].meaning);
}

static void put_client_places(FILE *out)
{
    roff_section(out, "ENVIRONMENT");
    roff_item(out, "SIJIL_USERNAME, SIJIL_PASSWORD, SIJIL_CA_FILE", "replace a stored login, for jobs that have no home folder.");
    roff_item(out, "SIJIL_PROXY",
              "the proxy for connections to registries, http://HOST:PORT; HTTPS_PROXY and similar variables are not used.");
    roff_item(out, "XDG_CONFIG_HOME, XDG_CACHE_HOME, HOME", "say where the files below are.");
    roff_section(out, "FILES");
    roff_item(out, "~/.config/sijil/hosts.json", "logins, with their passwords; only you may read it.");
    roff_item(out, "~/.cache/sijil/upload-*", "the state of an interrupted push; removed when the push is done.");
}

void page_of_client(FILE *out)
{
    static const char *const see_also[] = {"sijil-verify(1)", "sijild(8)", NULL};
    size_t count = 0, global_count = 0;
    const struct command *table = commands_table(&count);
    const struct option_row *global = commands_global_options(&global_count);

    roff_begin(out, "sijil", 1, "push models and datasets to a registry, pull them, ask who did what");
    roff_section(out, "SYNOPSIS");
    roff_line(out, 'B', "sijil");
    roff_line(out, 'R', "COMMAND [OPTION...] [OPERAND...]");
    (void)fputs(".br\n", out);
    roff_line(out, 'B', "sijil --help");
    (void)fputs(".br\n", out);
    roff_line(out, 'B', "sijil --version");
    roff_section(out, "DESCRIPTION");
    roff_line(out, 'R',
              "Pushes models and datasets to a Sijil registry, pulls them, and asks it who did what.\n"
              "Long options may be shortened, \"--\" ends them, and options and operands may be mixed.");
    roff_paragraph(out);
    roff_line(out, 'R', "REFERENCE is HOST[:PORT]/ORGANISATION/PROJECT/REPOSITORY[:TAG|@DIGEST]. With both, the digest counts.");
    roff_section(out, "OPTIONS OF EVERY COMMAND");
    roff_options(out, global, global_count, true);
    roff_section(out, "COMMANDS");
    for (size_t i = 0; i < count; i++) put_command(out, &table[i]);
    put_exit_codes(out);
    put_client_places(out);
    roff_section(out, "FAILURES AS JSON");
    roff_line(
        out, 'R',
        "With --json, a failure is one object on standard error. Its members are error (the kind), message, and detail (all\n"
        "other lines). If detail has them, these are also members: rule, policy, missing, decision, digest, reference, audit,\n"
        "request, said (the registry's sentence, if it is long), usage and try. Of several denials they are those of the first.");
    roff_section(out, "EXAMPLES");
    (void)fputs(".nf\n", out);
    roff_line(out, 'R', CLIENT_EXAMPLES);
    (void)fputs(".fi\n", out);
    roff_see_also(out, see_also);
}

struct setting_row {
    enum config_type type;
    const char *name, *initial;
    int64_t minimum, maximum;
    const char *unit, *help;
};

static void put_setting(FILE *out, const struct setting_row *row)
{
    static const char *const types[] = {[CONFIG_TEXT] = "text", [CONFIG_INTEGER] = "number", [CONFIG_BOOLEAN] = "yes or no"};

    roff_item(out, row->name, row->help);
    (void)fputs(".br\n", out);
    (void)fputs(types[row->type], out);
    if (row->type == CONFIG_INTEGER)
        (void)fprintf(out, ", %" PRId64 " to %" PRId64 "%s%s", row->minimum, row->maximum, row->unit[0] == '\0' ? "" : " ",
                      row->unit);
    (void)fputs(row->initial == NULL ? "; must be given\n" : "; default:\n", out);
    if (row->initial != NULL) roff_line(out, 'B', row->initial[0] == '\0' ? "empty" : row->initial);
}

static const struct setting_row settings[] = {
#define SETTING(type, name, ...) {CONFIG_##type, #name, __VA_ARGS__},
#include "gateway/settings/settings.def"
};
static const struct setting_row region_settings[] = {
#define REGION(type, name, ...) {CONFIG_##type, #name, __VA_ARGS__},
#include "gateway/settings/settings.def"
};

void page_of_settings(FILE *out)
{
    static const char *const see_also[] = {"sijild(8)", NULL};

    roff_begin(out, "sijild.conf", 5, "configuration of sijild");
    roff_section(out, "DESCRIPTION");
    roff_line(out, 'R',
              "Each line is \"name = value\"; texts stand in double quotes, and # begins a comment.\n"
              "A name or value that is not known is an error, never ignored.\n"
              "\"sijild --check-config\" checks a file; \"sijild --sample-config\" prints one with all defaults.");
    roff_section(out, "PARAMETERS");
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) put_setting(out, &settings[i]);
    roff_section(out, "REGIONS");
    roff_line(out, 'R',
              "A section region \"PROVIDER/REGION\" { ... } for each place that bytes may be in.\n"
              "Its title is the region's id, such as \"local/main\". It holds:");
    for (size_t i = 0; i < sizeof region_settings / sizeof region_settings[0]; i++) put_setting(out, &region_settings[i]);
    roff_see_also(out, see_also);
}
