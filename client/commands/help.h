/*
 * client/commands/help.h -- what `sijil` says of itself: of all commands, of those of one level (`sijil admin`), of one.
 */
#pragma once

#include "client/commands/command.h"

/* A line each, as --help and the man page show them; with four blanks none looks like a command's. */
#define CLIENT_EXAMPLES                                                                  \
    "    sijil login registry.example --username 'robot$acme+ci' < secret\n"            \
    "    sijil push model.onnx README.md registry.example/acme/models/fraud:v1\n"       \
    "    sijil pull registry.example/acme/models/fraud:v1 --output there\n"             \
    "    sijil copy registry.example/acme/models/fraud:v1 other.example/acme/models/fraud\n" \
    "    sijil audit tail registry.example --within acme --key out:denied\n"

/** The usage, the options and the detail of one command. */
void help_command(FILE *out, const struct command *command);

/** `sijil help WORD...` on standard output: one command, or all that begin with the words. ERROR_INVALID for none. */
RESULT help_level(const struct invocation *invocation, int count, char **words, struct error *err);

/** The words name no command. With --help those that begin with them are listed; else ERROR_INVALID says what is wrong: the
 *  words that may follow are named, and for a person listed, or the nearest command is suggested. */
RESULT help_without_command(const struct invocation *invocation, int count, char **words, struct error *err);

/** After getopt_long() refused `given`: the name of the option that was perhaps meant, or NULL. */
const char *help_nearest_option(const struct command *command, const char *given);
