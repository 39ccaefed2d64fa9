/*
 * client/commands/policy_source_priv.h -- a policy set that a command is about: of a file, as `policy sign` takes it or signed, or the one in force
 * at a registry.
 */
#pragma once

#include <jansson.h>

#include "client/commands/command.h"
#include "policy/set.h"

struct policy_source {
    const char *name; /* of the file or the registry */
    bool is_registry;
    json_t *document; /* the members of the set */
    json_t *lines;    /* for yaml_line() and so on; NULL if they are not known */
    struct policy_set *set;
};

/** Whether the operand is meant for a file: there is one, or no registry has such a name. Else it is a host. */
bool policy_source_is_file(const char *operand);
/** The text of a file: JSON of a set, or a signed set, whose signature is not checked. ERROR_INVALID, ERROR_LIMIT, ERROR_NO_MEMORY. */
RESULT policy_source_parse(struct bytes text, struct policy_source *source, struct error *err);
/** The file of that name or, if there is none, the set in force at the registry. A bad file is a wrong command line (exit status 2). */
RESULT policy_source_read(struct invocation *invocation, const char *operand, struct policy_source *source, struct error *err);
/** The line of policies[index], or of its rule of this id ("" or NULL: of the policy); 0 if it is not known. */
unsigned policy_source_line(const struct policy_source *source, const char *policy, const char *rule);
/** Shows text of a set on standard output, at most 1,023 bytes; what would steer the terminal becomes '?'. */
void policy_source_print(const char *text);
void policy_source_done(struct policy_source *source);
#define OWNED_SOURCE __attribute__((cleanup(policy_source_done)))
