/*
 * client/commands/policy_source_priv.h -- a policy set that a command is about: of a file, as `policy sign` takes it or signed, or the one in force
 * at a registry.
 */
#pragma once

#include <jansson.h>

#include "client/commands/command.h"
#include "client/session.h"
#include "policy/set_chain.h"

struct policy_source {
    const char *name; /* of the file or the registry */
    bool is_registry;
    const struct ecdsa_key *root; /* borrowed: whose signatures are checked, or who says whose; NULL: none are */
    json_t *document;             /* the members of the set */
    json_t *lines;                /* for yaml_line() and so on; NULL if they are not known */
    struct policy_set *set;
    struct buffer envelope;  /* empty: it is not signed */
    json_t *signers;         /* how many persons must sign, as the registry says; NULL: of a file, or of a set of the past */
    struct set_chain *chain; /* how many have signed, as they were counted here; NULL: they were not */
};

/** Whether the operand is meant for a file: there is one, or no registry has such a name. Else it is a host. */
bool policy_source_is_file(const char *operand);
/**
 * The text of a file: JSON of a set, a signed set, or an exported one. Signatures are checked if source->root is there: ERROR_DENIED. ERROR_INVALID, ERROR_LIMIT,
 * ERROR_NO_MEMORY.
 */
RESULT policy_source_parse(struct bytes text, struct policy_source *source, struct error *err);
RESULT policy_source_file(const char *path, struct policy_source *source, struct error *err);
/**
 * The set in force at a registry, or one of the past (`epoch` not 0), from its envelope, whose signatures are not checked. ERROR_CORRUPT: it is another set than the one that
 * the registry tells.
 */
RESULT policy_source_fetch(struct session *session, uint64_t epoch, struct policy_source *source, struct error *err);
/** The file of that name or, if there is none, the set in force at the registry. A bad file is a wrong command line (exit status 2). */
RESULT policy_source_read(struct invocation *invocation, const char *operand, struct policy_source *source, struct error *err);
/** The line of policies[index], or of its rule of this id ("" or NULL: of the policy); 0 if it is not known. */
unsigned policy_source_line(const struct policy_source *source, const char *policy, const char *rule);
/** Shows text of a set on standard output, at most 1,023 bytes; what would steer the terminal becomes '?'. */
void policy_source_print(const char *text);
void policy_source_done(struct policy_source *source);
#define OWNED_SOURCE __attribute__((cleanup(policy_source_done)))
