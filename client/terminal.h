/*
 * client/terminal.h -- the terminal of a person: its columns, secrets that are typed, and (base/terminal_text.h) text that is safe to show.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/result.h"
#include "base/terminal_text.h"

/**
 * One line from standard input, without its end: a secret. On a terminal it asks for `what`, such as "Password", and shows nothing of the
 * line. ERROR_INVALID for an empty line. The caller wipes `place`.
 */
RESULT terminal_secret(const char *what, char *destination, size_t room, struct error *err);

/** Whether a person is there: standard input and standard error are a terminal. */
bool terminal_is_there(void);
/** Asks, and reads a line, without the spaces around it; it may be empty. ERROR_INVALID: nobody answers, or the line is too long. */
RESULT terminal_ask(const char *question, char *destination, size_t room, struct error *err);
/** Asks, and reads a line. ERROR_INVALID, with what `otherwise` says, unless it is "yes". */
RESULT terminal_confirm(const char *question, const char *otherwise, struct error *err);

/** A line about what is under way, on standard error if that is a terminal. It takes the place of the one before. */
void terminal_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** Takes that line away. Rule: before anything else is shown, on standard output, too, which may be the same terminal. */
void terminal_progress_end(void);

/** The number of columns of the terminal on standard error; 80 if it is unknown. */
unsigned terminal_columns(void);
/** Whether standard output is a terminal with fewer columns. */
bool terminal_is_narrow(unsigned columns);
/** How many bytes of `text` fit into `columns` columns, one for each character; *columns_out is the number of columns used. */
size_t terminal_fit(const char *text, unsigned columns, unsigned *columns_out);
