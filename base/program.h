/*
 * base/program.h -- the command line of a program, as a table.
 *
 * A program writes its options once. getopt_long's array, --help, the man page and the completions come from this table.
 * Options are GNU's: long names, with "=" before a value. Nothing here is allocated.
 */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct option_row {
    int letter;           /* unique in the program; below 128 it is also the short option */
    const char *name;     /* long name without "--" */
    const char *argument; /* of the option, or NULL for a flag */
    const char *help;
};

/** Options that belong together, under a title that says when they apply. */
struct option_group {
    const char *title; /* "" for none */
    const struct option_row *rows;
    size_t count;
};

struct program {
    const char *name;
    int section;                 /* of the manual */
    const char *summary;         /* a few words, for the manual's first line */
    const char *const *synopses; /* each form of the command line, without the name; NULL ends them */
    const char *about;           /* the description, in sentences */
    const struct option_group *groups;
    size_t group_count;
    const char *closing; /* the text after the options; may be "" */
    const char *exit_status;
    const char *const *see_also; /* "sijild.conf(5)"; NULL ends them */
};

/** Prints one line of a table: `left`, padded to `width`, and the folded help behind or below it. */
void program_print_row(FILE *out, const char *left, size_t width, const char *help);

#define PROGRAM_OPTIONS_MAX 64 /* sijil-runner has the most */

#define PROGRAM_COLUMNS 80 /* of a line of --help */
/**
 * Prints text whose lines are broken at blanks, so that none has more than PROGRAM_COLUMNS letters; a longer word stays whole. `column`: letters
 * that the line has already. `indent`: of each further line. A line feed before a small letter only joins two words. Ends with a line feed.
 */
void program_print_folded(FILE *out, const char *text, size_t column, size_t indent);

/** Prints --help. A failed write shows in ferror(out). */
void program_print_help(FILE *out, const struct program *program);

/** Writes getopt_long's array of all groups, with the zero row at its end. The array has room for
 *  PROGRAM_OPTIONS_MAX + 1 rows. */
void program_long_options(const struct program *program, struct option *options_out);

/** "-o, --output=FOLDER", as --help shows an option; truncated to `room`. */
void option_spelling(const struct option_row *row, bool with_letter, char *text_out, size_t room);
