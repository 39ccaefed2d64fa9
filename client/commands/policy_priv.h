/*
 * client/commands/policy_priv.h -- policy sets from a registry or a file, and what a new one changes, for `sijil policy`.
 */
#pragma once

#include <stdio.h>

#include "client/commands/api_priv.h"
#include "client/commands/policy_source_priv.h"
#include "client/session.h"
#include "crypto/digest.h"
#include "policy/restriction_chain.h"
#include "policy/set.h"

/**
 * The sets of the past up to `source`, the set in force, and the documents of approvers' keys, in the order of their events: an array of {"event", "time_ms", "envelopes"}, of sets
 * with "epoch" and "row", which is one of *rows_out, the history. Each set says which one it replaces, so the registry can't put others in their place.
 */
RESULT policy_links_fetch(struct session *session, const struct policy_source *source, json_t **rows_out, json_t **links_out,
                          struct error *err);
/** The same up to the document `last`, {"event", "envelopes"}, which is the last one. */
RESULT policy_links_until(struct session *session, const struct policy_source *source, json_t *last, json_t **links_out,
                          struct error *err);
/** Counts who has signed the next document of such an array. Of its sets only the last one has to be good. ERROR_DENIED. */
RESULT policy_link_follow(const json_t *links, size_t index, struct set_chain *chain, struct error *err);
/**
 * What tells who has signed the restrictions of an organisation, without the keys that `links` has: an array of {"event", "time_ms", "envelopes"}, and of restrictions "recorded_by", in the order
 * of their events. `links` NULL: all of it.
 */
RESULT restriction_links_fetch(struct session *session, const char *organisation, const json_t *links, json_t **documents_out,
                               struct error *err);
/** Appends those of `all` whose events `links` does not have. */
RESULT restriction_links_without(const json_t *all, const json_t *links, json_t *documents, struct error *err);
/** Appends a set for a plan: the set in force, and the restriction of a file in it. */
RESULT restriction_compose(struct session *session, const char *path, uint64_t epoch, struct buffer *payload, struct error *err);
/** Counts who has signed the restrictions of the organisation that --organisation names, from the root's key on. `all`: of restriction_links_fetch(), without `links`. ERROR_DENIED. */
RESULT restrictions_count(const struct invocation *invocation, struct session *session, const struct ecdsa_key *root,
                          const json_t *all, struct restriction_chain **chain_out, struct error *err);
/** The list of an organisation's restrictions, made, replaced and withdrawn. */
RESULT restriction_history(struct invocation *invocation, struct error *err);
/** The next link of such an array, or of that of policy_links_fetch(). `envelopes` has DOCUMENT_SIGNATURES_MAX places. */
RESULT policy_link_read(const json_t *link, struct bytes *envelopes, struct set_chain_link *read_out, struct error *err);
/** All of them, from source->root on: source->chain. ERROR_DENIED: not enough persons have signed, ERROR_CORRUPT: the registry shows something else than they have. */
RESULT policy_source_check(struct session *session, struct policy_source *source, struct error *err);
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
/** The set of a draft that waits at the registry, for whoever reads it before signing it. ERROR_CORRUPT: the registry shows another one than the name says. */
RESULT policy_draft_fetch(struct invocation *invocation, struct session *session, const char *draft, struct policy_set **set_out,
                          struct error *err);
/** The SHA-256 of a file with grounds, as text. ERROR_INVALID if it is empty. */
RESULT policy_digest_file(const char *path, char digest_out[DIGEST_TEXT_SIZE], struct error *err);
/** Prints "ingest, mount", or "every operation", of bits of enum policy_operation. */
void policy_operations_print(FILE *stream, uint32_t operations);
/** Says on standard error what `next` changes; `base` NULL: it is the first set. */
RESULT policy_show_changes(const struct policy_set *base, const struct policy_set *next, struct error *err);
/** The restrictions in force of the organisation that --organisation names: an array of policies. */
RESULT restrictions_fetch(struct invocation *invocation, struct session *session, json_t **policies_out, struct error *err);
