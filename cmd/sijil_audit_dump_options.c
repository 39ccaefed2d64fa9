#include "cmd/options.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct option_row main_rows[] = {
    {AUDIT_DUMP_DATABASE, "database", "FILE",
     "its first line is a PostgreSQL connection string; no other user may read the file"},
    {AUDIT_DUMP_OUTPUT, "output", "FILE",
     "write FILE.part, and give it its name when it is whole; default, and \"-\": standard output"},
    {AUDIT_DUMP_PROGRESS, "progress", NULL, "tell on standard error how far it is"},
    {AUDIT_DUMP_HELP, "help", NULL, "show this text and end"},
    {AUDIT_DUMP_VERSION, "version", NULL, "show the version and end"},
};
static const struct option_group groups[] = {{"", main_rows, COUNT(main_rows)}};
static const char *const synopses[] = {"--database=FILE [--output=FILE] [--progress]", NULL};
static const char *const see_also[] = {"sijil-verify(1)", "sijild(8)", NULL};

const struct program audit_dump_program = {
    .name = "sijil-audit-dump",
    .section = 8,
    .summary = "writes an audit log as a file that sijil-verify checks",
    .synopses = synopses,
    .about = "Write the audit log of a registry, and the rows that must follow from it, as one stream of records\n"
             "for 'sijil-verify fsck'. It reads one moment of a live database, and changes nothing.",
    .groups = groups,
    .group_count = COUNT(groups),
    .closing =
        "A role that may read just what it needs: SELECT grant_audit_dump('ROLE'), as the owner of the database.\n"
        "The dump has no names of persons, no addresses and no sealed text. It has names of repositories.\n"
        "Entries whose bytes were archived and released are in it with their hash alone; a line on standard error says which.",
    .exit_status = "0 success, 1 failure; nothing has the name FILE then, so run it again; 2 the command line is wrong.",
    .see_also = see_also,
};
