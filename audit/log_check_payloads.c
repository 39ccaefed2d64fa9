#include <assert.h>
#include <string.h>

#include "audit/erasure_priv.h"
#include "audit/log_check_priv.h"
#include "audit/query_priv.h"
#include "crypto/secret.h"

static void note_first(struct payload_findings *findings, uint64_t sequence)
{
    if (findings->missing + findings->damaged == 0) findings->first = sequence;
}

struct result check_is_erased(struct pg *pg, const struct audit_page *page, size_t index, char erased[65], bool *is_erased_out,
                              struct error *err)
{
    struct leaf leaf;

    TRY(leaf_read(audit_page_leaf(page, index), &leaf, err));
    *is_erased_out = strcmp(leaf.actor, erased) == 0;
    if (*is_erased_out) return SUCCESS;
    TRY(erasure_is_recorded(pg, leaf.actor, is_erased_out, err));
    if (*is_erased_out) memcpy(erased, leaf.actor, sizeof leaf.actor);
    return SUCCESS;
}

static struct result check_payload(struct pg *pg, struct audit_page *page, size_t index, const struct payload_keys *keys,
                                   struct payload_findings *findings, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(65536);
    bool is_on_purpose = false;

    if (!audit_page_is_readable(page, index))
        return SUCCESS; /* it has no commitment that could be checked; check_rows() counts it */
    const struct result opened = audit_page_payload(page, index, keys->keyd, keys->origin, &text, err);

    if (text.data != NULL) secret_wipe(text.data, text.length);
    if (!opened.ok && err->kind != ERROR_CORRUPT) return opened;
    const bool is_missing = opened.ok && audit_page_missing(page, index) != NULL;
    if (is_missing) TRY(check_is_erased(pg, page, index, findings->erased, &is_on_purpose, err));
    if (opened.ok && (!is_missing || is_on_purpose)) return SUCCESS;
    note_first(findings, audit_page_sequence(page, index));
    findings->missing += is_missing;
    findings->damaged += !opened.ok;
    return SUCCESS;
}

static void note_facts(struct payload_findings *findings, uint64_t sequence, enum facts_state state)
{
    if (state == FACTS_SOUND) return;
    if (findings->facts_missing + findings->facts_damaged == 0) findings->first_facts = sequence;
    *(state == FACTS_MISSING ? &findings->facts_missing : &findings->facts_damaged) += 1;
}

static struct result check_facts(struct pg *pg, struct audit_page *page, struct payload_findings *findings, struct error *err)
{
    struct bytes text;

    TRY(audit_page_load_facts(page, pg, err));
    for (size_t i = 0; i < audit_page_count(page); i++)
        for (size_t k = 0; k < audit_page_facts_count(page, i); k++)
            note_facts(findings, audit_page_sequence(page, i), audit_page_facts(page, i, k, &text));
    return SUCCESS;
}

struct result log_check_payloads(struct log_check *check, uint64_t first, uint64_t end, const struct payload_keys *keys,
                                 struct payload_findings *findings, struct error *err)
{
    struct payload_findings found = *findings;
    OWNED(audit_page) *page = NULL;

    assert(end - first <= TILE_WIDTH); /* a page holds TILE_WIDTH entries */
    TRY(audit_page_between_kept(check->tiles.pg, first, end, check->archived, &page, err));
    for (size_t i = 0; i < audit_page_count(page); i++) TRY(check_payload(check->tiles.pg, page, i, keys, &found, err));
    TRY(check_facts(check->tiles.pg, page, &found, err));
    if (keys->with_index) TRY(log_check_blind(check, page, keys, &found, err));
    *findings = found;
    return SUCCESS;
}
