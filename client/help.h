/*
 * client/help.h -- what `sijil` says of itself: of all commands, of those of one level (`sijil admin`), of one.
 */
#pragma once

#include "client/command.h"

/** The usage, the options and the detail of one command. */
void help_command(FILE *out, const struct command *command);

/** `sijil help WORD...`: one command, or all that begin with the words. The exit status of the program. */
enum exit_code help_level(FILE *out, int count, char **words);

/** The words name no command: those that begin with them are listed, or the nearest is suggested. */
enum exit_code help_without_command(int count, char **words);

/** After getopt_long() refused `given`: the option that was perhaps meant, and where all stand. */
void help_option(FILE *out, const struct command *command, const char *given);
