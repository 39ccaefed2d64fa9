/*
 * client/commands/policy_priv.h -- policy sets from a registry or a file, and what a new one changes, for `sijil policy`.
 */
#pragma once

#include "client/commands/api_priv.h"
#include "client/session.h"
#include "crypto/digest.h"
#include "policy/set.h"

/** A set, and from where it comes. */
struct found_set {
    struct policy_set *set;
    struct buffer envelope; /* empty: it is not signed */
    bool is_checked;        /* a root's key was given, and has signed it */
    json_t *signers;        /* how many persons must sign, as the registry says; NULL: of a file */
};
void found_set_done(struct found_set *found);
#define OWNED_FOUND __attribute__((cleanup(found_set_done))) struct found_set

/** The set in force at HOST, with its envelope. ERROR_NOT_FOUND: none is in force. ERROR_CORRUPT: envelope and set differ. */
RESULT policy_set_fetch(struct session *session, struct found_set *found, struct error *err);
/** A set from a file: signed, or a document as `policy sign` takes it. With `root` it has to be signed with that key. */
RESULT policy_set_from_file(const char *path, const struct ecdsa_key *root, struct found_set *found, struct error *err);
/** Refuses what no set has, because it would be signed unnoticed. */
RESULT policy_check_form(const json_t *document, struct error *err);
/** Checks a document as `policy sign` does, and appends the payload of that epoch; 0: its own, or 1. */
RESULT policy_compose(const json_t *document, uint64_t epoch, struct buffer *payload, struct error *err);
/** As policy_compose(), from a file; errors begin with its path. */
RESULT policy_compose_file(const char *path, uint64_t epoch, struct buffer *payload, struct error *err);
/** Writes a payload to --output, with line ends and indents, for a person that goes on with an editor. */
RESULT policy_write_payload(const struct invocation *invocation, struct bytes payload, struct error *err);
/** Submits a draft of a set with these members, under the options of "policy draft" that the command has, and shows what it changes. */
RESULT policy_draft_content(struct invocation *invocation, struct session *session, const json_t *content, struct error *err);
/** The same, and signs the draft at once: for what one person brings into force. */
RESULT policy_draft_signed(struct invocation *invocation, struct session *session, const json_t *content,
                           const struct ecdsa_key *key, struct error *err);
/** The SHA-256 of a file with grounds, as text. ERROR_INVALID if it is empty. */
RESULT policy_digest_file(const char *path, char digest_out[DIGEST_TEXT_SIZE], struct error *err);
/** Says on standard error what `next` changes; `base` NULL: it is the first set. */
RESULT policy_show_changes(const struct policy_set *base, const struct policy_set *next, struct error *err);
