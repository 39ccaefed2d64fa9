/*
 * client/commands/command.h -- the commands of `sijil`, and the parsed command line of one run.
 *
 * client/commands/commands.def is the one table of commands; parsing, --help, man pages and completion come from it. GNU conventions:
 * there are long options, "--" ends the options, and options and operands may be mixed.
 */
#pragma once

#include <stdio.h>

#include "base/bytes.h"
#include "base/program.h"
#include "client/report.h"

/* code, what it means to a script */
#define EXIT_CODES(X)                                                                                        \
    X(EXIT_DONE, 0, "done")                                                                                  \
    X(EXIT_FAILED, 1, "failed for a reason that no other code names")                                        \
    X(EXIT_USAGE, 2, "the command line is wrong; nothing was sent")                                          \
    X(EXIT_NOT_FOUND, 3, "no such repository, tag, digest or file")                                          \
    X(EXIT_DENIED, 4, "not logged in, no trust in the certificate, or refused by a role or a policy")        \
    X(EXIT_UNAVAILABLE, 5,                                                                                   \
      "the registry can't be reached or is overloaded, or could not search all of its log; try again later") \
    X(EXIT_DAMAGED, 6, "what came is damaged or false: its digest, signature or log is another one")         \
    X(EXIT_RUN, 7, "the training run that was waited for has ended, and has not succeeded")                  \
    X(EXIT_DIFFERS, 8, "an output of the repeated training run differs")

enum exit_code {
#define X(constant, code, meaning) constant = (code),
    EXIT_CODES(X)
#undef X
};

struct invocation;

struct command {
    const char *name;     /* "push", "admin robot create" */
    const char *operands; /* "FILE... REFERENCE" */
    unsigned least, most; /* how many operands */
    const char *summary;  /* one line */
    const char *detail;   /* more, for --help and the man page; may be "" */
    const struct option_row *options;
    size_t option_count;
    RESULT (*run)(struct invocation *invocation, struct error *err);
};

/** Added to the letter that `audit search` has for a condition: `audit export` has other options of these letters, so a condition has its long name only there. */
#define AUDIT_EXPORT_CONDITION 128
#define OPERANDS_MAX           0x7fffffffu /* as many as the kernel passes on */
#define OPTION_VALUES_MAX      64

/** One run of the program. */
struct invocation {
    const struct command *command;
    const char *const *operands;
    unsigned operand_count;
    struct option_value {
        int letter;
        const char *value;
    } values[OPTION_VALUES_MAX];
    unsigned value_count;
    bool json, verbose, wide;
    bool line_is_wrong;        /* the failure is about operands or options */
    enum exit_code ends_with;  /* the exit code of a failure, if its kind does not decide it; EXIT_DONE: its kind does */
    struct report report;      /* of all its sessions */
    struct ecdsa_key *act_key; /* of --sign-with; owned, and report has it */
    char notes[4096];          /* notes_folder() */
};

/** The option's last value, "" for a flag that was given, NULL if it was not. */
const char *invocation_option(const struct invocation *invocation, int letter);
/** The next value of an option that may be repeated; start with *at = 0; NULL when there is none left. */
const char *invocation_next_option(const struct invocation *invocation, int letter, unsigned *at);

/** All commands, and the options that each of them has. */
const struct command *commands_table(size_t *count_out);
const struct option_row *commands_global_options(size_t *count_out);

/** The whole program behind cmd/sijil.c. */
int client_main(int argc, char **argv);

/** Reports the failure of the command on standard error: as text, or (--json) as one JSON object with the server's details as members. */
void command_report(const struct invocation *invocation, const struct error *err);

/** Marks a failed check of operands and options, before any request: the program then ends with EXIT_USAGE. */
RESULT line_check(struct invocation *invocation, struct result checked);

/** Adds a line "label value" to what is shown below the error's sentence; nothing without a value. */
void invocation_explain(struct invocation *invocation, const char *label, const char *value);

/** The value of --jobs, or JOBS_DEFAULT. ERROR_INVALID if it is not a number of jobs. */
RESULT jobs_option(const struct invocation *invocation, unsigned *parallel_out, struct error *err);

enum exit_code exit_code_of(const struct invocation *invocation, const struct error *err);
