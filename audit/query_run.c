/* Entries of the log for the bundle of a training run, and for a residency report. */
#include <assert.h>
#include <string.h>

#include "audit/query_priv.h"

/* A key of a person or a runner, or a trust rule. */
static bool is_of_a_document(const char *action)
{
    static const enum action keys[] = {ACTION_KEY_APPROVE,   ACTION_KEY_REVOKE,   ACTION_RUNNER_APPROVE,
                                       ACTION_RUNNER_REVOKE, ACTION_RULE_APPROVE, ACTION_RULE_REVOKE};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(action, action_name(keys[i])) == 0) return true;
    return false;
}

static bool is_order_of(const struct leaf_target *target, const char *project)
{
    const size_t length = strlen(project);

    return strcmp(target->action, action_name(ACTION_RUN_ORDER)) == 0 && strncmp(target->resource, project, length) == 0 &&
           target->resource[length] == '#';
}

static struct result find_of_run(const struct permit *permit, struct pg *pg, const struct run_entry *entry,
                                 struct audit_page **page_out, struct error *err)
{
    const struct resource *where = permit_resource(permit, entry->action);
    OWNED(audit_page) *page = NULL;
    struct leaf leaf;

    assert(where->kind == RESOURCE_PROJECT && entry->sequence < INT64_MAX);
    TRY(audit_page_between(pg, entry->sequence, entry->sequence + 1, &page, err));
    if (audit_page_count(page) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such event");
    TRY(leaf_read(audit_page_leaf(page, 0), &leaf, err));
    if (!is_of_a_document(leaf.targets[0].action) && !is_order_of(&leaf.targets[0], where->name))
        return failure(err, ERROR_NOT_FOUND, "there is no such event");
    *page_out = GIVE(page);
    return SUCCESS;
}

struct result audit_prove_run(const struct permit *permit, struct pg *pg, const struct run_entry *entry,
                              const struct proven_entry *proven, struct error *err)
{
    OWNED(audit_page) *page = NULL;

    TRY(find_of_run(permit, pg, entry, &page, err));
    const struct bytes leaf = audit_page_leaf(page, 0);
    TRY(audit_prove_under(pg, entry->checkpoint, entry->sequence, leaf, proven->proof, err));
    return buffer_add(proven->entry, leaf.data, leaf.length, err);
}

static struct result write_decision(const struct audit_page *page, struct buffer *line, bool *is_whole, struct error *err)
{
    const struct bytes leaf = audit_page_leaf(page, 0);
    struct bytes facts;

    TRY(buffer_format(line, err, "{\"seq\":%llu,\"entry\":", (unsigned long long)audit_page_sequence(page, 0)));
    TRY(buffer_add(line, leaf.data, leaf.length, err));
    TRY(buffer_add_text(line, ",\"facts\":[", err));
    *is_whole = audit_page_facts_count(page, 0) > 0;
    for (size_t i = 0; i < audit_page_facts_count(page, 0) && *is_whole; i++) {
        *is_whole = audit_page_facts(page, 0, i, &facts) == FACTS_SOUND;
        if (i > 0) TRY(buffer_add_u8(line, ',', err));
        if (*is_whole) TRY(buffer_add(line, facts.data, facts.length, err));
    }
    return buffer_add_text(line, "]}", err);
}

struct result audit_decision_of_run(const struct permit *permit, struct pg *pg, const struct run_entry *entry,
                                    struct buffer *line, bool *is_whole_out, struct error *err)
{
    OWNED(audit_page) *page = NULL;
    const size_t before = line->length;

    TRY(find_of_run(permit, pg, entry, &page, err));
    TRY(audit_page_load_facts(page, pg, err));
    TRY(write_decision(page, line, is_whole_out, err));
    if (!*is_whole_out) buffer_truncate(line, before);
    return SUCCESS;
}

struct result audit_prove_set(const struct permit *permit, struct pg *pg, uint64_t sequence,
                              const struct signed_checkpoint *checkpoint, const struct proven_entry *proven, struct error *err)
{
    OWNED(audit_page) *page = NULL;
    struct leaf leaf;

    (void)permit_resource(permit, ACTION_REPORT_RESIDENCY);
    assert(sequence < INT64_MAX);
    TRY(audit_page_between(pg, sequence, sequence + 1, &page, err));
    if (audit_page_count(page) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such event");
    const struct bytes bytes = audit_page_leaf(page, 0);
    TRY(leaf_read(bytes, &leaf, err));
    if (strcmp(leaf.targets[0].action, action_name(ACTION_POLICY_LOAD)) != 0)
        return failure(err, ERROR_NOT_FOUND, "there is no such event");
    TRY(audit_prove_under(pg, checkpoint, sequence, bytes, proven->proof, err));
    return buffer_add(proven->entry, bytes.data, bytes.length, err);
}
