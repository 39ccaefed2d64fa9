/*
 * authz/trust_rules.h -- the trust rules that are in force (docs/ci.md), as a snapshot of the rights has them.
 *
 * A rule is a principal: the issuer TRUST_ISSUER and the rule's key. Its grants become bindings of the snapshot (authz/snapshot_load.h), so
 * each request is decided from them, and nothing in the database gives a rule more. A list is immutable and shared.
 */
#pragma once

#include "crypto/digest.h"
#include "documents/format/trust_rule.h"
#include "documents/view.h"

/** No issuer has this URL: the one of an issuer begins with https://. */
#define TRUST_ISSUER   "sijil:rule"
#define TRUST_KEY_SIZE 256 /* a scope of at most 127 letters, ':', an id of at most TRUST_RULE_NAME_MAX */

/** What an entry of the list has of its document. */
struct pinned_entry {
    uint64_t sequence; /* of the event that brought it into force */
    int64_t effective_ms, expires_ms;
    char digest[DIGEST_TEXT_SIZE];
    json_t *json; /* the document's; this has an owner of its own */
};
/** sijil-keyd pins what begins at most so much later. It replaces the version before at once, so it counts at once, too. */
#define PINNED_EARLY_MS INT64_C(60000)
bool pinned_entry_is_in_force(const struct pinned_entry *entry, int64_t now_ms);

struct trust_entry {
    char key[TRUST_KEY_SIZE]; /* "acme/models:gh-train"; of a rule of the registry ":gh-train" */
    struct pinned_entry pinned;
    struct trust_rule rule; /* views into pinned.json */
};
struct trust_rules;

/** From documents that the caller knows to be in force. authz/snapshot_load.h takes them from a view. */
RESULT trust_rules_of(const struct pinned_document *pinned, size_t count, struct trust_rules **rules_out, struct error *err);

/** By key; NULL if there is no such rule. */
const struct trust_entry *trust_rules_find(const struct trust_rules *rules, const char *key);
/** The next rule after *at that matches the claims and is in force at `now_ms`, the highest priority first; begin with *at = 0. NULL: no
 *  further one. */
const struct trust_entry *trust_rules_match(const struct trust_rules *rules, const json_t *claims, int64_t now_ms, size_t *at);
/** The number of the event up to which recorded rules were read; 0: none were. */
uint64_t trust_rules_read_until(const struct trust_rules *rules);
size_t trust_rules_count(const struct trust_rules *rules);
const struct trust_entry *trust_rules_at(const struct trust_rules *rules, size_t number);
/** The next rule after *at of another organisation than that of `scope` that one token can match as well as `rule`, and that has not expired; begin
 *  with *at = 0. NULL: no further one. The registry counts as one more organisation. */
const struct trust_entry *trust_rules_meeting(const struct trust_rules *rules, const struct trust_rule *rule, const char *scope,
                                              int64_t now_ms, size_t *at);

/** NULL stands for no rules. */
struct trust_rules *trust_rules_keep(const struct trust_rules *rules);
void trust_rules_free(struct trust_rules *rules);
DEFINE_OWNED(trust_rules);
