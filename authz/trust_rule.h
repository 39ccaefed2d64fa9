/*
 * authz/trust_rule.h -- the changes that trust rules need: a rule comes into force or is withdrawn; a token of a CI system is used.
 */
#pragma once

#include "authz/trust_login.h"
#include "documents/change.h"

/** Statements of the changes below, for the sequencer. It needs document_table, too. */
extern const struct pg_table trust_rule_table;

/**
 * Records a rule or its withdrawal, as document_change_init(), and raises the authorization epoch: each gateway reads the rules again before it
 * makes its next decision. Contains pointers into itself: don't copy it.
 *
 * `compared`: the rules that the caller has compared this one with (trust_rule_meets_another()); NULL: none. If another rule, or a withdrawal, was recorded since
 * those were read, at whichever gateway, the change fails with ERROR_CONFLICT. It holds the lock of the epoch, so of two that come at the same time the second
 * sees the first.
 */
struct trust_rule_change {
    struct change change;
    struct document_change recording;
    bool is_compared;
    uint64_t read_until; /* of the rules it was compared with */
};
void trust_rule_change_init(struct trust_rule_change *change, const struct document_row *row, bool ends_draft,
                            const struct authz_snapshot *compared);

#define TRUST_MINT_DETAIL_SIZE (RESOURCE_DETAIL_MAX + 8 + TRUST_KEY_SIZE + DIGEST_TEXT_SIZE)
/**
 * For the event of a token that is made by a rule, under a permit for ACTION_TOKEN_MINT: names the rule in it, and spends the issuer's token if
 * the rule lets it be used once. ERROR_CONFLICT: it is spent already, here or at another gateway.
 */
struct trust_mint {
    struct change change; /* points into this struct: don't copy it */
    const struct trust_use *use;
    char detail[TRUST_MINT_DETAIL_SIZE];
};
/** `scope` is the detail that the event would have without a rule. `use` must outlive the record. */
void trust_mint_init(struct trust_mint *mint, const struct trust_use *use, const char *scope);
