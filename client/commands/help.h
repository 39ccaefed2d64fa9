/*
 * client/commands/help.h -- help texts of `sijil`: for all commands, for those of one level (`sijil admin`), for one.
 */
#pragma once

#include "client/commands/command.h"

/* One line each, as --help and the man page show them; four spaces keep them apart from command names. */
#define CLIENT_EXAMPLES                                                                  \
    "    sijil login registry.example --username 'robot$acme+ci' < secret\n"             \
    "    sijil push model.onnx README.md registry.example/acme/models/fraud:v1\n"        \
    "    sijil pull registry.example/acme/models/fraud:v1 --output there\n"              \
    "    sijil copy registry.example/acme/models/fraud:v1 b.example/acme/models/fraud\n" \
    "    sijil audit tail registry.example --within acme --key out:denied\n"

/** The usage, the options and the detail of one command. */
void help_command(FILE *out, const struct command *command);

/** `sijil help WORD...` on standard output: one command, or all that begin with the words. ERROR_INVALID if there is none. */
RESULT help_level(const struct invocation *invocation, int count, char **words, struct error *err);

/** For words that name no command. With --help it lists the commands that begin with them. Else ERROR_INVALID names the words that may
 *  follow, or the nearest command. */
RESULT help_without_command(const struct invocation *invocation, int count, char **words, struct error *err);

/** For an option that getopt_long() refused: the name of the nearest option, or NULL. */
const char *help_nearest_option(const struct command *command, const char *given);
