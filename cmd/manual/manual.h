/*
 * cmd/manual/manual.h -- the man pages and completions, made while building, from the programs' own tables.
 *
 * Everything is written to a stream; a failed write shows in ferror(). Only the build runs this.
 */
#pragma once

#include <stdio.h>

#include "base/program.h"
#include "client/commands/command.h"

/* Pieces of a page (man-pages(7)), roff.c. Text is escaped, so that no letter of a table is taken for a request. */
void roff_begin(FILE *out, const char *name, int section, const char *summary);
void roff_section(FILE *out, const char *title);
void roff_subsection(FILE *out, const char *title);
void roff_paragraph(FILE *out);
/** Text in the font 'R', 'B' or 'I', with the end of the line. */
void roff_line(FILE *out, char font, const char *text);
/** An indented paragraph: its tag in bold, then what it says. */
void roff_item(FILE *out, const char *tag, const char *text);
void roff_options(FILE *out, const struct option_row *rows, size_t count, bool with_letters);
void roff_see_also(FILE *out, const char *const *pages);

/** Man pages. */
void page_of_program(FILE *out, const struct program *program);
void page_of_client(FILE *out);
void page_of_settings(FILE *out);

/** Completions: bash needs no bash-completion to run them, zsh's are for its compsys. */
void bash_of_program(FILE *out, const struct program *program);
void bash_of_client(FILE *out);
void zsh_of_program(FILE *out, const struct program *program);
void zsh_of_client(FILE *out);

/** Whether an option's value, or an operand, is a file's name, going by the word that the tables use for it. */
bool names_file(const char *argument);

#define WORDS_MAX      64 /* second or third words after the same first ones: fewer than commands */
#define WORD_SIZE      32
struct words {
    char word[WORDS_MAX][WORD_SIZE];
    size_t count;
};
/** The words that may follow `prefix` ("" or "admin ") in a command's name, each once. */
void words_after(const char *prefix, struct words *words_out);
/** Calls `each` with every true beginning of a command's name of several words: "admin ", "admin robot ". */
void each_prefix(void (*each)(FILE *out, const char *prefix), FILE *out);
