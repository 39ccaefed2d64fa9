/*
 * cmd/manual/manual.h -- makes the man pages and completions during the build, from the programs' own tables.
 *
 * All output goes to a stream; a failed write shows in ferror(). Only the build runs this.
 */
#pragma once

#include <stdio.h>

#include "base/program.h"
#include "client/commands/command.h"

/* Parts of a page (man-pages(7)), roff.c. Text is escaped, so that roff reads no character of a table as a request. */
void roff_begin(FILE *out, const char *name, int section, const char *summary);
void roff_section(FILE *out, const char *title);
void roff_subsection(FILE *out, const char *title);
void roff_paragraph(FILE *out);
/** One line of text in the font 'R', 'B' or 'I'. */
void roff_line(FILE *out, char font, const char *text);
/** An indented paragraph: a tag in bold, then the text. */
void roff_item(FILE *out, const char *tag, const char *text);
void roff_options(FILE *out, const struct option_row *rows, size_t count, bool with_letters);
void roff_see_also(FILE *out, const char *const *pages);

/** Man pages. */
void page_of_program(FILE *out, const struct program *program);
void page_of_client(FILE *out);
void page_of_settings(FILE *out);

/** The table of docs/identity.md that says what each role permits. */
void roles_table(FILE *out);
/** Writes the generated part of docs/api.md, from the tables of routes and schemas; and the OpenAPI description. False on failure. */
void api_tables(FILE *out);
bool api_description(FILE *out);

/** Completions. bash's do not need the package bash-completion; zsh's are for its compsys. */
void bash_of_program(FILE *out, const struct program *program);
void bash_of_client(FILE *out);
void zsh_of_program(FILE *out, const struct program *program);
void zsh_of_client(FILE *out);

/** Whether the value of an option, or an operand, is the name of a file. The placeholder in the tables (FILE, PEM) decides. */
bool names_file(const char *argument);

#define WORDS_MAX 64 /* second or third words after the same first words: fewer than commands */
#define WORD_SIZE 32
struct words {
    char word[WORDS_MAX][WORD_SIZE];
    size_t count;
};
/** The words that may follow `prefix` ("" or "admin ") in the name of a command, each once. */
void words_after(const char *prefix, struct words *words_out);
/** Calls `each` with every proper prefix of names with several words: "admin ", "admin robot ". */
void each_prefix(void (*each)(FILE *out, const char *prefix), FILE *out);
